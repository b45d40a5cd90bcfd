import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer, type Scope } from "effect"
import pg from "pg"
import type { JobId } from "@kiln/core/domain"
import { JobStore, WakeUp } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { type PostgresOptions, PostgresStores } from "../src/index.ts"
import { FinishedJobs, finishedLock, readFinished } from "../src/wakeUp/Listener.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

const { completionOf, jobId, newJob, noLimits } = fixtures
const request = {
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }],
  limits: noLimits,
  limit: 1,
  leaseDurationMs: 60_000,
  maxLostWorkers: 1,
}

/** The stores of one process. */
const process = (url: string, options: Partial<PostgresOptions> = {}) =>
  Effect.map(Layer.build(Layer.fresh(PostgresStores.layer({ url, poolSize: 2, ...options }))), (context) => ({
    jobs: Context.get(context, JobStore),
    wakeUp: Context.get(context, WakeUp),
  }))

const listening = (url: string): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(
    runSql(
      url,
      `SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'kiln wake-up'`,
    ),
    (rows) => rows.map((row) => String(Object(row).query)),
  )

/** What one process hears, from when the server tells it of anything. */
const hearing = (
  url: string,
  { wakeUp }: { readonly wakeUp: WakeUp["Service"] },
): Effect.Effect<Set<JobId>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const heard = new Set<JobId>()
    yield* wakeUp.onFinished((jobs) => (jobs === "any" ? [] : jobs).forEach((id) => heard.add(id)))
    yield* Effect.repeat(listening(url), { until: (queries) => queries.includes('LISTEN "kiln.kiln"') })
    return heard
  })

/** The payloads that a connection of its own receives about finished jobs. */
const overhearing = (url: string): Effect.Effect<ReadonlyArray<string>, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const client = new pg.Client({ connectionString: url })
        const payloads: Array<string> = []
        client.on("notification", ({ payload = "" }) => void payloads.push(payload))
        await client.connect()
        await client.query('LISTEN "kiln.kiln"')
        return { client, payloads }
      }),
      ({ client }) => Effect.promise(() => client.end()),
    ),
    ({ payloads }) => payloads,
  )

/** Begins a transaction with this statement. */
const openTransaction = (url: string, statement: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const client = new pg.Client({ connectionString: url })
        await client.connect()
        await client.query("BEGIN")
        return { client, rows: (await client.query(statement)).rows }
      }),
      ({ client }) => Effect.promise(() => client.end()),
    ),
    ({ client, rows }) => ({ rows, end: Effect.promise(() => client.query("COMMIT")) }),
  )

/** How many sessions of kiln's listeners wait for a lock. */
const waiting = (url: string): Effect.Effect<number> =>
  Effect.map(
    runSql(
      url,
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'kiln wake-up'
         AND wait_event_type = 'Lock'`,
    ),
    (rows) => rows.length,
  )

const until = (holds: () => boolean) => Effect.repeat(Effect.yieldNow, { until: holds })

describe("ends of jobs", () => {
  it.live("are announced to other processes, and only to them, whatever the cause", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const [one, other] = [yield* process(url), yield* process(url)]
      const heard = yield* hearing(url, other)
      const own = new Set<JobId>()
      yield* one.wakeUp.onFinished((jobs) => (jobs === "any" ? [] : jobs).forEach((id) => own.add(id)))
      const { cancelJobs, claimJobs, completeJobs, createJobs, expireJobs, failJobs, releaseJobs } = one.jobs
      const claimed = Effect.fnUntraced(function* (n: number, leaseDurationMs = 60_000) {
        yield* createJobs([newJob(n)])
        const [claim] = (yield* claimJobs({ ...request, leaseDurationMs })).claims
        return claim ?? (yield* Effect.die(`job ${n} was not claimed`))
      })
      yield* completeJobs([completionOf(yield* claimed(1))])
      const failing = yield* claimed(2)
      yield* failJobs([{ jobId: failing.job.id, token: failing.token, errorCode: "internal_error" }])
      const back = yield* claimed(3)
      yield* releaseJobs([{ jobId: back.job.id, token: back.token }])
      expect(yield* cancelJobs([jobId(3), jobId(1), jobId(99)])).toEqual(["Canceled", "AlreadyFinished", "NotFound"])
      yield* createJobs([newJob(4, { limits: { queueLimitMs: 0, runLimitMs: 1_000 } })])
      expect(yield* expireJobs(10)).toEqual([jobId(4)])
      yield* claimed(5, 1)
      const abandons = Effect.map(claimJobs(request), ({ abandoned }) => abandoned.length === 1)
      yield* Effect.repeat(abandons, { until: (did) => did })
      yield* until(() => heard.size === 5)
      expect([...heard].toSorted()).toEqual([1, 2, 3, 4, 5].map(jobId))
      expect(own.size).toBe(0)
    }),
  )

  it.live("are listened to only while there are subscribers", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const only = yield* process(url)
      yield* Effect.repeat(only.wakeUp.reach, { until: (reach) => reach === "installation" })
      const listens = (queries: ReadonlyArray<string>) => queries.filter((text) => text.includes("LISTEN"))
      expect(listens(yield* listening(url)), "no worker waits for work either").toEqual([])
      yield* Effect.scoped(hearing(url, only))
      yield* Effect.repeat(listening(url), { until: (queries) => queries.includes('UNLISTEN "kiln.kiln"') })
    }),
  )

  it.live("are not announced to the server where no process listens", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const [one, other] = [yield* process(url), yield* process(url)]
      // It listens as a stranger, without the lock that processes share.
      const payloads = yield* overhearing(url)
      const finish = Effect.fnUntraced(function* (n: number) {
        yield* one.jobs.createJobs([newJob(n)])
        const { claims } = yield* one.jobs.claimJobs(request)
        yield* one.jobs.completeJobs(claims.map((claim) => completionOf(claim)))
      })
      yield* finish(1)
      const heard = yield* hearing(url, other)
      yield* finish(2)
      yield* until(() => heard.has(jobId(2)) && payloads.length > 0)
      expect(payloads.map((payload) => readFinished(payload).jobs)).toEqual([[jobId(2)]])
    }),
  )

  it.live("reach a process that begins to listen while a job ends", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const only = yield* process(url)
      const commit = yield* openTransaction(url, `SELECT pg_try_advisory_xact_lock(${finishedLock}) AS unheard`)
      expect(commit.rows).toEqual([{ unheard: true }])
      yield* Effect.repeat(only.wakeUp.reach, { until: (reach) => reach === "installation" })
      let told = 0
      yield* only.wakeUp.onFinished((jobs) => void (told += jobs === "any" ? 1 : 0))
      yield* Effect.repeat(waiting(url), { until: (count) => count === 1 })
      expect(told, "it would look for its job too early").toBe(0)
      yield* commit.end
      yield* until(() => told === 1)
    }),
  )

  it.live("are announced at shutdown by a process that does not listen", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const other = yield* process(url)
      const heard = yield* hearing(url, other)
      yield* other.jobs.createJobs([newJob(1)])
      yield* Effect.scoped(
        Effect.flatMap(process(url, { notifications: "send" }), ({ jobs }) => jobs.cancelJobs([jobId(1)])),
      )
      yield* until(() => heard.size === 1)
    }),
  )

  it.live("are announced a thousand at a time", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const [one, other] = [yield* process(url), yield* process(url)]
      const heard = yield* hearing(url, other)
      const ids = Array.from({ length: 1_000 }, (_, n) => jobId(n))
      yield* one.jobs.createJobs(ids.map((_, n) => newJob(n)))
      yield* one.jobs.cancelJobs(ids)
      yield* until(() => heard.size === 1_000)
    }),
  )
})

describe("payloads", () => {
  it("have fewer than 8,000 bytes, and every id once", () => {
    const jobs = new FinishedJobs()
    const ids = Array.from({ length: 1_500 }, (_, n) => jobId(n))
    jobs.add(ids)
    jobs.add(ids.slice(0, 10))
    const payloads = jobs.take("42")
    expect(payloads.length).toBeGreaterThan(1)
    expect(Math.max(...payloads.map((payload) => payload.length))).toBeLessThan(8_000)
    const read = payloads.map(readFinished)
    expect(new Set(read.map(({ mark }) => mark))).toEqual(new Set(["42"]))
    expect(read.flatMap(({ jobs: told }) => told)).toEqual(ids)
    expect(jobs.take("42")).toEqual([])
  })

  it("stand for any job if there are too many, and for none if they cannot be parsed", () => {
    const jobs = new FinishedJobs()
    jobs.add(Array.from({ length: 2_001 }, (_, n) => jobId(n)))
    expect(jobs.take("")).toEqual([" *"])
    expect(readFinished(" *")).toEqual({ mark: "", jobs: "any" })
    expect(readFinished("1 x,job_1")).toEqual({ mark: "1", jobs: ["job_1"] })
  })
})
