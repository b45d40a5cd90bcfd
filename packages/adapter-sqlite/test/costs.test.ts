import { statSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import type { Database } from "../src/Database.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { countStatements } from "./support/countStatements.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { completionOf, newJob, noLimits } = fixtures
const pageBytes = 4_096
const frameBytes = pageBytes + 24

/** One job as callers send it, with ids and keys of realistic length. */
const job = (n: number, over: Parameters<typeof newJob>[1] = {}) =>
  newJob(n, { idempotencyKey: `${n}`.padEnd(36, "x"), fingerprint: "f".repeat(64), ...over })

const jobs = (from: number, count: number, over: Parameters<typeof newJob>[1] = {}) =>
  Array.from({ length: count }, (_, n) => job(from + n, over))

const request = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }],
  limits: noLimits,
  limit: 100,
  leaseDurationMs: 30_000,
  maxLostWorkers: 3,
}

const opened = Effect.gen(function* () {
  const path = yield* temporaryFile
  const database = yield* openDatabase({ path })
  return { database, path, ...storesOf(database) }
})

/** Runs a verb and returns how many statements that read and write it ran. */
const statementsOf = <A, E>(verb: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const counted = countStatements()
    const result = yield* verb
    const counts = counted.take()
    counted.end()
    return { result, ...counts }
  })

describe("statements", () => {
  it.effect("a new job in a known lane: one statement, without a transaction around it", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      yield* store.createJobs([job(1)])
      expect(yield* statementsOf(store.createJobs([job(2)]))).toMatchObject({ reads: 0, writes: 1, others: 0 })
    }),
  )

  it.effect("also below a queue cap", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      yield* store.createJobs([job(1, { queueCap: 3 })])
      expect(yield* statementsOf(store.createJobs([job(2, { queueCap: 3 })]))).toMatchObject({ reads: 0, writes: 1 })
    }),
  )

  it.effect("100 new jobs of one lane: the lane is read once", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      yield* store.createJobs([job(1)])
      expect(yield* statementsOf(store.createJobs(jobs(2, 100)))).toMatchObject({ reads: 1, writes: 100 })
    }),
  )

  it.effect("a long request has a row of its own", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      yield* store.createJobs([job(1)])
      const long = job(2, { request: { input: "x".repeat(1_000) } })
      expect(yield* statementsOf(store.createJobs([long]))).toMatchObject({ reads: 1, writes: 2 })
    }),
  )

  it.effect("a replay: a lookup of its lane and one of its job, and no row is written", () =>
    Effect.gen(function* () {
      const { database, jobs: store } = yield* opened
      yield* store.createJobs([job(1)])
      const changes = () => database.connection.prepare("SELECT total_changes() AS n").get([])
      const before = changes()
      const { reads, result } = yield* statementsOf(store.createJobs([job(1, { request: { input: "again" } })]))
      expect(result).toMatchObject([{ _tag: "Replayed" }])
      expect(reads).toBe(2)
      expect(changes()).toEqual(before)
    }),
  )

  it.effect("a claim of 100 jobs of the only lane that has any: a few statements for all", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      yield* store.createJobs(jobs(1, 200))
      const { reads, result, writes } = yield* statementsOf(store.claimJobs(request))
      expect(result.claims).toHaveLength(100)
      // The clock, the first lanes of the kind, a page of jobs, one of lost jobs.
      expect(reads).toBe(4)
      // Jobs, the lane's turn and the clock.
      expect(writes).toBe(3)
    }),
  )

  it.effect("a claim of 100 jobs of lanes that take turns: pages of jobs that double", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      yield* store.createJobs([...jobs(1, 100), ...jobs(101, 100, { projectId: fixtures.projectId(2) })])
      const { reads, result, writes } = yield* statementsOf(store.claimJobs(request))
      expect(result.claims.filter(({ job: { projectId } }) => projectId === fixtures.projectId(2))).toHaveLength(50)
      // The clock, the first lanes, those behind the clock and ahead of it, and for each lane six pages and one of lost jobs.
      expect(reads).toBeLessThanOrEqual(4 + 2 * (6 + 1))
      expect(writes).toBe(1 + 2 + 1)
    }),
  )

  it.effect("a new job that an idle worker claims at once: eleven statements in all", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      const created = yield* store.createAndClaimJobs([job(1)], request)
      const claims = created.claimed?.claims ?? []
      yield* store.completeJobs(claims.map((claim) => completionOf(claim, { files: [] })))
      const { reads, result, writes } = yield* statementsOf(store.createAndClaimJobs([job(2)], request))
      expect(result.claimed?.claims).toHaveLength(1)
      // The lane, the clock, the first lanes of the kind, waiting and lost jobs, and when the lane has something again.
      expect(reads).toBe(6)
      // The job, its lane, the claim, the lane's turn, the clock.
      expect(writes).toBe(5)
    }),
  )

  it.effect("100 completions without files: a few statements, and none that reads", () =>
    Effect.gen(function* () {
      const { jobs: store } = yield* opened
      yield* store.createJobs(jobs(1, 100))
      const { claims } = yield* store.claimJobs(request)
      const completions = claims.map((claim) => completionOf(claim, { files: [] }))
      expect(yield* statementsOf(store.completeJobs(completions))).toMatchObject({ reads: 0, writes: 4 })
    }),
  )
})

/** Pages that commits wrote to the log since it was last empty. */
const pagesWritten = (path: string): number => Math.max(0, statSync(`${path}-wal`).size - 32) / frameBytes

const emptyLog = ({ connection }: Database): void => void connection.pragma("wal_checkpoint(TRUNCATE)")

describe("pages", () => {
  it.effect("a commit of one new job writes seven pages at most, on average", () =>
    Effect.gen(function* () {
      const { database, jobs: store, path } = yield* opened
      yield* store.createJobs(jobs(1, 500))
      emptyLog(database)
      for (let n = 0; n < 100; n += 1) yield* store.createJobs([job(1_000 + n)])
      expect(pagesWritten(path) / 100).toBeLessThanOrEqual(7)
    }),
  )

  it.effect("a commit of 100 new jobs writes less than a page for each", () =>
    Effect.gen(function* () {
      const { database, jobs: store, path } = yield* opened
      yield* store.createJobs(jobs(1, 500))
      emptyLog(database)
      yield* store.createJobs(jobs(1_000, 100))
      expect(pagesWritten(path) / 100).toBeLessThan(1)
    }),
  )

  it.effect("a heartbeat does not rewrite the request", () =>
    Effect.gen(function* () {
      const { database, jobs: store, path } = yield* opened
      yield* store.createJobs([job(1, { request: { input: "x".repeat(100 * pageBytes) } })])
      const { claims } = yield* store.claimJobs(request)
      emptyLog(database)
      yield* store.extendLeases(claims.map(({ job: { id }, token }) => ({ jobId: id, token, leaseDurationMs: 60_000 })))
      expect(pagesWritten(path)).toBeLessThanOrEqual(8)
    }),
  )
})
