import { copyFileSync, existsSync, readFileSync, statSync } from "node:fs"
import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import type { ClaimRequest, JobStore as Store } from "@kiln/core/ports"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const canary = "canary-5f3c-prompt"
const principal = fixtures.ownerOf(fixtures.newJob(1))

const holdsCanary = (path: string): boolean =>
  ["", "-wal", "-shm"].some((suffix) => existsSync(path + suffix) && readFileSync(path + suffix).includes(canary))

/** Several jobs. Job 1 is done and has the canary in everything it retains. */
const arrange = (store: Store["Service"]) =>
  Effect.gen(function* () {
    yield* store.createJobs([
      fixtures.newJob(1, { request: { input: canary.repeat(300) } }),
      ...Array.from({ length: 20 }, (_, n) => fixtures.newJob(n + 2)),
    ])
    const request: ClaimRequest = {
      runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
      limits: fixtures.noLimits,
      limit: 1,
      leaseDurationMs: 30_000,
      maxLostWorkers: 3,
    }
    const { claims } = yield* store.claimJobs(request)
    yield* store.checkpointJobs(
      claims.map(({ job, token }) => ({ jobId: job.id, token, step: "reply", value: canary })),
    )
    yield* store.deferJobs(
      claims.map(({ job, token }) => ({
        jobId: job.id,
        token,
        delayMs: 0,
        countsAsFailure: true,
        record: { ...fixtures.record, message: canary, stack: canary.repeat(300) },
      })),
    )
    const again = yield* store.claimJobs(request)
    yield* store.completeJobs(again.claims.map((claim) => fixtures.completionOf(claim, { output: { text: canary } })))
  })

const erasures: ReadonlyArray<
  readonly [name: string, erase: (store: Store["Service"]) => Effect.Effect<unknown, unknown>]
> = [
  ["eraseJobs", (store) => store.eraseJobs([{ jobId: fixtures.jobId(1), principal }])],
  ["expireData", (store) => store.expireData(0, 10)],
  ["deleteJobs", (store) => store.deleteJobs(0, 10)],
]

for (const [name, erase] of erasures)
  it.effect(`after ${name}, the content is in no file of the database`, () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.gen(function* () {
        const store = yield* JobStore
        yield* arrange(store)
        expect(holdsCanary(path)).toBe(true)
        yield* erase(store)
        // The truncation runs in another fiber.
        yield* TestClock.adjust(0)
        expect(statSync(`${path}-wal`).size).toBe(0)
        expect(holdsCanary(path)).toBe(false)
      }).pipe(Effect.provide(SqliteStores.layer({ path })))
    }),
  )

it.effect("erasures in quick succession share one truncation, two seconds later", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.gen(function* () {
      const store = yield* JobStore
      yield* arrange(store)
      yield* store.expireData(0, 10)
      yield* TestClock.adjust(0)
      yield* store.eraseJobs([{ jobId: fixtures.jobId(1), principal }])
      yield* TestClock.adjust(1_999)
      expect(statSync(`${path}-wal`).size).toBeGreaterThan(0)
      yield* TestClock.adjust(1)
      expect(statSync(`${path}-wal`).size).toBe(0)
    }).pipe(Effect.provide(SqliteStores.layer({ path })))
  }),
)

it.effect("content that a crash left in the log after an erasure is removed at the next start", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    const crashed = yield* temporaryFile
    yield* Effect.gen(function* () {
      const store = yield* JobStore
      yield* arrange(store)
      yield* store.expireData(0, 10)
      // As after a power failure: before the truncating fiber ran.
      for (const suffix of ["", "-wal"]) copyFileSync(path + suffix, crashed + suffix)
    }).pipe(Effect.provide(SqliteStores.layer({ path })))
    expect(holdsCanary(crashed)).toBe(true)
    yield* Effect.gen(function* () {
      yield* JobStore
      yield* TestClock.adjust(0)
      expect(holdsCanary(crashed)).toBe(false)
    }).pipe(Effect.provide(SqliteStores.layer({ path: crashed })))
  }),
)

it.effect("a truncation that a reader prevents is retried", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.gen(function* () {
      const store = yield* JobStore
      yield* arrange(store)
      const reader = new (yield* Effect.promise(() => import("better-sqlite3"))).default(path)
      reader.exec("BEGIN")
      reader.prepare("SELECT id FROM kiln_jobs").all([])
      yield* store.eraseJobs([{ jobId: fixtures.jobId(1), principal }])
      yield* TestClock.adjust(0)
      expect(statSync(`${path}-wal`).size).toBeGreaterThan(0)
      reader.close()
      yield* TestClock.adjust(2_000)
      expect(statSync(`${path}-wal`).size).toBe(0)
      expect(holdsCanary(path)).toBe(false)
    }).pipe(Effect.provide(SqliteStores.layer({ path })))
  }),
)
