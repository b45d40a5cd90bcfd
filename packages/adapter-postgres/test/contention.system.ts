import { describe, expect, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Fiber, Layer } from "effect"
import { JobEvents, layerGroupCommit } from "@kiln/core/effect"
import { CallerTransactions, JobStore, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { type PostgresOptions, PostgresStores } from "../src/index.ts"
import { begun, emptyDatabase, runSql } from "./support/databases.ts"

const { jobId, keyId, newJob, ownerOf, projectId } = fixtures

/** Milliseconds for what waits for nobody, on a machine that is busy. Those who failed with the batch did so after several seconds. */
const soonMs = 3_000

/** The stores of one process, whose calls at one moment are one batch. */
const openProcess = (url: string, options: Partial<PostgresOptions> = {}) =>
  Effect.map(
    Layer.build(
      layerGroupCommit.pipe(
        Layer.provide(JobEvents.layer),
        Layer.provideMerge(PostgresStores.layer({ url, poolSize: 4, notifications: false, ...options })),
      ),
    ),
    (context) => ({
      jobs: Context.get(context, JobStore),
      callers: Context.get(context, CallerTransactions),
    }),
  )

const capped = (n: number, item: Partial<NewJob> = {}): NewJob => newJob(n, { queueCap: 100, ...item })
const elsewhere = (n: number): NewJob => capped(n, { projectId: projectId(n), keyId: keyId(n) })

const timed = <A extends ReadonlyArray<{ readonly _tag: string }>, E>(verb: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const startedAt = performance.now()
    const outcomes = yield* verb
    return { tags: outcomes.map(({ _tag }) => _tag), tookMs: performance.now() - startedAt }
  })

describe("a key bound by an open transaction", () => {
  it.live("blocks only repeats of the key: not the rest of the batch, later calls or other processes", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const [one, two] = [yield* openProcess(url), yield* openProcess(url)]
      const client = yield* begun(url)
      yield* one.callers.createJobs(client, [capped(1)])
      const repeating = yield* Effect.forkChild(timed(one.jobs.createJobs([capped(1, { id: jobId(2) })])), {
        startImmediately: true,
      })
      const create = (process: typeof one, job: NewJob) => timed(process.jobs.createJobs([job]))
      const beside = yield* Effect.all([create(one, capped(3)), create(one, elsewhere(4))], { concurrency: 2 })
      const after = yield* Effect.all(
        [create(one, capped(5)), create(one, elsewhere(6)), create(two, capped(7)), create(two, elsewhere(8))],
        { concurrency: 4 },
      )
      for (const { tags, tookMs } of [...beside, ...after]) {
        expect(tags).toEqual(["Created"])
        expect(tookMs).toBeLessThan(soonMs)
      }
      yield* Effect.promise(() => client.query("COMMIT"))
      expect((yield* Fiber.join(repeating)).tags).toEqual(["Replayed"])
    }),
  )

  it.live("does not block later calls if the repeat was a single call", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const { callers, jobs } = yield* openProcess(url)
      const client = yield* begun(url)
      yield* callers.createJobs(client, [capped(1)])
      for (const n of [2, 3, 4]) {
        const repeat = jobs.createJobs([capped(1, { id: jobId(100 + n) })])
        yield* Effect.forkScoped(Effect.exit(repeat), { startImmediately: true })
        // Long enough to be under way, and so alone.
        yield* Effect.sleep(20)
        const { tags, tookMs } = yield* timed(jobs.createJobs([capped(n)]))
        expect(tags).toEqual(["Created"])
        expect(tookMs).toBeLessThan(soonMs)
      }
    }),
  )

  it.live("leaves connections for others, however many repeat it", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const { callers, jobs } = yield* openProcess(url)
      const client = yield* begun(url)
      yield* callers.createJobs(client, [capped(1)])
      const repeat = (n: number) => Effect.exit(jobs.createJobs([capped(1, { id: jobId(100 + n) })]))
      const repeats = Array.from({ length: 20 }, (_, n) => repeat(n))
      const repeating = yield* Effect.forkChild(Effect.all(repeats, { concurrency: "unbounded" }), {
        startImmediately: true,
      })
      // Long enough for each to have been tried.
      yield* Effect.sleep(2_000)
      for (const n of [2, 3, 4, 5]) {
        const { tags, tookMs } = yield* timed(jobs.createJobs([elsewhere(n)]))
        expect(tags).toEqual(["Created"])
        expect(tookMs).toBeLessThan(700)
      }
      yield* Effect.promise(() => client.query("ROLLBACK"))
      expect((yield* Fiber.join(repeating)).every(Exit.isSuccess)).toBe(true)
    }),
  )

  it.live(
    "makes a batch fail as contended, soon and whole, and one item by itself when it has tried for long enough",
    () =>
      Effect.gen(function* () {
        const url = yield* emptyDatabase
        const context = yield* Layer.build(
          PostgresStores.layer({ url, poolSize: 4, notifications: false, retryForMs: 1_000 }),
        )
        const { createJobs } = Context.get(context, JobStore)
        const client = yield* begun(url)
        yield* Context.get(context, CallerTransactions).createJobs(client, [newJob(1)])
        const repeat = newJob(1, { id: jobId(2) })
        const startedAt = performance.now()
        const batch = yield* Effect.flip(createJobs([repeat, newJob(3)]))
        expect(performance.now() - startedAt).toBeLessThan(soonMs)
        expect(batch).toMatchObject({ _tag: "StoreUnavailable", contended: true, cause: { code: "55P03" } })
        expect(yield* runSql(url, `SELECT id FROM "kiln".jobs`)).toEqual([])
        const alone = yield* Effect.flip(createJobs([repeat]))
        expect(alone.contended).toBe(false)
        yield* Effect.promise(() => client.query("ROLLBACK"))
        expect((yield* createJobs([repeat, newJob(3)])).map(({ _tag }) => _tag)).toEqual(["Created", "Created"])
      }),
  )
})

it.live("a failed job that an open transaction retries blocks only its own erasure", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const { callers, jobs } = yield* openProcess(url)
    yield* jobs.createJobs([newJob(1), newJob(2), newJob(3)])
    yield* jobs.cancelJobs([jobId(1), jobId(2), jobId(3)])
    const client = yield* begun(url)
    yield* callers.createJobs(client, [newJob(9, { retryOf: jobId(1) })])
    const erase = (n: number) => timed(jobs.eraseJobs([{ jobId: jobId(n), principal: ownerOf(newJob(n)) }]))
    const erasing = yield* Effect.forkChild(erase(1), { startImmediately: true })
    for (const { tags, tookMs } of yield* Effect.all([erase(2), erase(3)], { concurrency: 2 })) {
      expect(tags).toEqual(["Erased"])
      expect(tookMs).toBeLessThan(soonMs)
    }
    yield* Effect.promise(() => client.query("COMMIT"))
    expect((yield* Fiber.join(erasing)).tags).toEqual(["Erased"])
  }),
)

it.live("a batch waits longer for a project's lock than for a row, and stays whole", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const context = yield* Layer.build(PostgresStores.layer({ url, poolSize: 4, notifications: false }))
    const { createJobs } = Context.get(context, JobStore)
    const client = yield* begun(url)
    const lock = `pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".queue ${newJob(1).projectId}', 0))`
    yield* Effect.promise(() => client.query(`SELECT ${lock}`))
    const creating = yield* Effect.forkChild(createJobs([capped(1), capped(2)]), { startImmediately: true })
    // Longer than a row would be waited for.
    yield* Effect.promise(() => client.query("SELECT pg_sleep(0.6); COMMIT"))
    const exit = yield* Fiber.await(creating)
    expect(Exit.isSuccess(exit) ? exit.value.map(({ _tag }) => _tag) : Cause.squash(exit.cause)).toEqual([
      "Created",
      "Created",
    ])
  }),
)
