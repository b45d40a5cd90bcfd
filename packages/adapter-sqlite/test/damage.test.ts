import { closeSync, openSync, readFileSync, writeSync } from "node:fs"
import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { type ClaimRequest, JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const request: ClaimRequest = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
  limits: fixtures.noLimits,
  limit: 10,
  leaseDurationMs: 30_000,
  maxLostWorkers: 3,
}
const principal = fixtures.ownerOf(fixtures.newJob(1))
const item = (n: number) => ({ jobId: fixtures.jobId(n), principal })

/** Three jobs. The second is damaged while the file is closed. */
const withDamage = <A, E>(damage: (path: string) => void, use: Effect.Effect<A, E, JobStore>) =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    const layer = SqliteStores.layer({ path })
    yield* Effect.gen(function* () {
      const store = yield* JobStore
      yield* store.createJobs([
        fixtures.newJob(1),
        fixtures.newJob(2, { request: { input: "canary".repeat(5_000) } }),
        fixtures.newJob(3),
      ])
    }).pipe(Effect.provide(layer, { local: true }))
    damage(path)
    return yield* Effect.provide(use, layer, { local: true })
  })

const withSql = (sql: string) => (path: string) => {
  const database = new Sqlite(path)
  database.exec(`DROP TRIGGER kiln_job_data_is_final; DROP TRIGGER kiln_jobs_request_is_final; ${sql}`)
  database.close()
}

/** Points an overflow page to a page that does not exist. Its first four bytes are the number of the next page. */
const cutOverflowChain = (path: string): void => {
  const page = Math.floor(readFileSync(path).indexOf("canary".repeat(600)) / 4_096)
  const file = openSync(path, "r+")
  writeSync(file, Uint8Array.of(0x7f, 0xff, 0xff, 0xf0), 0, 4, page * 4_096)
  closeSync(file)
}

describe("a damaged job fails, and the queue goes on", () => {
  const damages: ReadonlyArray<readonly [name: string, damage: (path: string) => void]> = [
    ["its request is not JSON", withSql("UPDATE kiln_job_data SET request = '{' WHERE job_seq = 2")],
    [
      "its short request is not JSON",
      withSql("DELETE FROM kiln_job_data WHERE job_seq = 2; UPDATE kiln_jobs SET request = '{' WHERE seq = 2"),
    ],
    ["its request is not an object", withSql("UPDATE kiln_job_data SET request = '[]' WHERE job_seq = 2")],
    [
      "a checkpoint is not JSON",
      withSql(
        `UPDATE kiln_jobs SET status = 'processing', token = 2, attempts = 1 WHERE seq = 2;
         DROP TRIGGER kiln_checkpoints_while_held;
         INSERT INTO kiln_checkpoints VALUES (2, 'reply', '{')`,
      ),
    ],
    ["its data is missing", withSql("DELETE FROM kiln_job_data WHERE job_seq = 2")],
    ["its page is corrupt", cutOverflowChain],
  ]
  for (const [name, damage] of damages)
    it.live(name, () =>
      withDamage(
        damage,
        Effect.gen(function* () {
          const store = yield* JobStore
          const { claims } = yield* store.claimJobs(request)
          expect(claims.map(({ job }) => job.id)).toEqual([fixtures.jobId(1), fixtures.jobId(3)])
          expect(yield* store.completeJobs(claims.map((claim) => fixtures.completionOf(claim)))).toEqual([
            "Written",
            "Written",
          ])
          expect(yield* store.findJobs([item(1), item(3)])).toMatchObject([{ status: "done" }, { status: "done" }])
          // Neither a claim nor the sweep returns it.
          expect(yield* store.claimJobs(request)).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
        }),
      ),
    )

  it.live("with its error code, once, and its row stays", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const layer = SqliteStores.layer({ path })
      const claim = Effect.flatMap(JobStore, ({ claimJobs }) => claimJobs(request))
      yield* Effect.provide(
        Effect.flatMap(JobStore, ({ createJobs }) => createJobs([fixtures.newJob(1)])),
        layer,
        { local: true },
      )
      withSql("UPDATE kiln_jobs SET request = '{' WHERE seq = 1")(path)
      yield* Effect.provide(claim, layer, { local: true })
      const database = new Sqlite(path, { readonly: true })
      expect(database.prepare("SELECT status, error_code, attempts, token FROM kiln_jobs").all([])).toEqual([
        { status: "failed", error_code: "internal_error", attempts: 1, token: 2 },
      ])
      database.close()
    }),
  )
})

it.live("reading a damaged job is a defect of that call, and other jobs can be read", () =>
  withDamage(
    withSql("UPDATE kiln_job_data SET request = '{' WHERE job_seq = 2"),
    Effect.gen(function* () {
      const store = yield* JobStore
      const exit = yield* Effect.exit(store.findJobs([item(2)]))
      expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
      // The message does not contain stored content.
      expect(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "").not.toContain("canary")
      expect(yield* store.findJobs([item(1), item(3)])).toMatchObject([{ status: "queued" }, { status: "queued" }])
    }),
  ),
)
