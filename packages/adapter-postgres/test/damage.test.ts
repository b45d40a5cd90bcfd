import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, Logger } from "effect"
import { type ClaimRequest, JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

const request: ClaimRequest = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
  limits: fixtures.noLimits,
  limit: 10,
  leaseDurationMs: 30_000,
  maxLostWorkers: 3,
}
const principal = fixtures.ownerOf(fixtures.newJob(1))
const item = (n: number) => ({ jobId: fixtures.jobId(n), principal })

/** Three jobs, the second of which is damaged by this SQL, past the triggers and foreign keys. */
const withDamage = <A, E>(sql: string, use: (url: string) => Effect.Effect<A, E, JobStore>) =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* postgresMigrations.apply({ url })
    return yield* Effect.gen(function* () {
      const store = yield* JobStore
      yield* store.createJobs([
        fixtures.newJob(1),
        fixtures.newJob(2, { request: { input: "canary".repeat(5_000) } }),
        fixtures.newJob(3),
      ])
      yield* runSql(url, `SET search_path = kiln; SET session_replication_role = replica; ${sql}`)
      return yield* use(url)
    }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 2, notifications: false, noteLanesEveryMs: 0 })))
  })

const two = `'${fixtures.jobId(2)}'`

const damages: ReadonlyArray<
  readonly [name: string, sql: string, counts?: { readonly attempts: number; readonly token: number }]
> = [
  ["its request is not JSON", `UPDATE jobs SET request = '{' WHERE id = ${two}`],
  ["its request is not an object", `UPDATE jobs SET request = '[]' WHERE id = ${two}`],
  [
    "a checkpoint is not JSON",
    // Only a job that was claimed before has checkpoints.
    `INSERT INTO checkpoints VALUES ('${fixtures.jobId(2)}', 'reply', '{');
     UPDATE queue SET status = 'processing', attempts = 1, token = 2 WHERE id = '${fixtures.jobId(2)}'`,
    { attempts: 2, token: 4 },
  ],
  ["its data is missing", `UPDATE jobs SET request = NULL WHERE id = ${two}`],
]

describe("a damaged job fails, and the queue goes on", () => {
  for (const [name, sql, counts = { attempts: 1, token: 2 }] of damages)
    it.live(name, () =>
      withDamage(sql, (url) =>
        Effect.gen(function* () {
          const store = yield* JobStore
          const logs: Array<string> = []
          const capture = Logger.layer([Logger.map(Logger.formatJson, (line) => void logs.push(line))])
          const { claims } = yield* Effect.provide(store.claimJobs(request), capture)
          expect(claims.map(({ job }) => job.id)).toEqual([fixtures.jobId(1), fixtures.jobId(3)])
          // An operator learns which one it is, and nobody what was stored.
          expect(logs.join()).toMatch(`"a job could not be read and has failed: its record is damaged"`)
          expect(logs.join()).toContain(fixtures.jobId(2))
          expect(logs.join()).not.toContain("canary")
          expect(yield* store.completeJobs(claims.map((claim) => fixtures.completionOf(claim)))).toEqual([
            "Written",
            "Written",
          ])
          expect(yield* store.findJobs([item(1), item(3)])).toMatchObject([{ status: "done" }, { status: "done" }])
          // It does not come back, neither to a worker nor to the sweep.
          expect(yield* store.claimJobs(request)).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
          const row = `SELECT status, error_code, attempts::int, token::int FROM kiln.results WHERE job_id = '${fixtures.jobId(2)}'`
          expect(yield* runSql(url, row)).toEqual([{ status: "failed", error_code: "internal_error", ...counts }])
          expect(yield* runSql(url, "SELECT id FROM kiln.queue")).toEqual([])
        }),
      ),
    )
})

it.live("reading a damaged job is a defect of that call; other jobs can be read", () =>
  withDamage(`UPDATE jobs SET request = '{"input":"canary' WHERE id = ${two}`, () =>
    Effect.gen(function* () {
      const store = yield* JobStore
      const exit = yield* Effect.exit(store.findJobs([item(2)]))
      expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
      // The message names the job and quotes nothing that was stored.
      expect(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "").toContain(fixtures.jobId(2))
      expect(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "").not.toContain("canary")
      expect(yield* store.findJobs([item(1), item(3)])).toMatchObject([{ status: "queued" }, { status: "queued" }])
    }),
  ),
)
