import { Worker } from "node:worker_threads"
import { expect, it } from "@effect/vitest"
import Sqlite from "better-sqlite3"
import { Clock, Effect, Exit, Fiber } from "effect"
import { JobStore, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { child } from "./support/childProcess.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const holdLock = new URL("./support/holdLock.ts", import.meta.url)

/**
 * Returns a function that counts the rounds of this thread's event loop while an effect runs, and those of an idle thread in the
 * same time. Load slows both down alike, but a call that blocks this thread stops only its own rounds.
 */
const roundCounter = Effect.gen(function* () {
  const idle = new Int32Array(new SharedArrayBuffer(4))
  yield* Effect.acquireRelease(
    Effect.sync(() => new Worker(new URL("./support/countRounds.ts", import.meta.url), { workerData: idle })),
    (worker) => Effect.promise(() => worker.terminate()),
  )
  while (Atomics.load(idle, 0) === 0) yield* Effect.sleep(1)
  return <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const idleBefore = Atomics.load(idle, 0)
      let rounds = 0
      const timer = setInterval(() => (rounds += 1), 1)
      const value = yield* Effect.ensuring(
        effect,
        Effect.sync(() => clearInterval(timer)),
      )
      return { value, rounds, idleRounds: Atomics.load(idle, 0) - idleBefore }
    })
})

const create = (n: number) => Effect.flatMap(JobStore, ({ createJobs }) => createJobs([fixtures.newJob(n)]))

it.live("while another process holds the lock, writers wait without blocking the event loop, and all succeed", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.gen(function* () {
      yield* create(1)
      const counted = yield* roundCounter
      const other = yield* child(holdLock, path, "1000")
      expect(yield* Effect.promise(other.line)).toBe("held")
      const { idleRounds, rounds, value } = yield* counted(
        Effect.forEach(
          Array.from({ length: 20 }, (_, n) => n + 2),
          create,
          { concurrency: "unbounded" },
        ),
      )
      expect(value.flat().map(({ _tag }) => _tag)).toEqual(Array.from({ length: 20 }, () => "Created"))
      expect(yield* Effect.promise(other.line)).toBe("released")
      expect(rounds).toBeGreaterThan(idleRounds / 4)
    }).pipe(Effect.provide(SqliteStores.layer({ path })))
  }),
)

/** Creates jobs while another connection holds the lock. Returns the readings of the clock: before and after it was released. */
const createWhileLocked = (jobs: ReadonlyArray<NewJob>) =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    return yield* Effect.gen(function* () {
      const store = yield* JobStore
      yield* create(1)
      const other = yield* Effect.acquireRelease(
        Effect.sync(() => new Sqlite(path, { timeout: 0 })),
        (connection) => Effect.sync(() => connection.close()),
      )
      /** Returns whether another connection could write now. */
      const isFree = () => {
        try {
          other.exec("BEGIN IMMEDIATE")
        } catch {
          return false
        }
        other.exec("ROLLBACK")
        return true
      }
      const readings: Array<{ readonly free: boolean; readonly ms: number }> = []
      const clock = yield* Clock.Clock
      const watched = Object.assign(Object.create(clock) as Clock.Clock, {
        currentTimeMillisUnsafe: () => {
          const ms = clock.currentTimeMillisUnsafe()
          readings.push({ free: isFree(), ms })
          return ms
        },
      })
      expect(isFree()).toBe(true)
      other.exec("BEGIN IMMEDIATE")
      const waiting = yield* Effect.forkChild(Effect.provideService(store.createJobs(jobs), Clock.Clock, watched))
      yield* Effect.sleep(300)
      const before = readings.splice(0)
      const releasedAt = clock.currentTimeMillisUnsafe()
      other.exec("ROLLBACK")
      const [outcome] = yield* Fiber.join(waiting)
      if (outcome?._tag !== "Created") throw new Error(`expected Created, got ${outcome?._tag}`)
      expect(readings.map(({ free }) => free)).toEqual([false])
      expect(outcome.job.createdAt).toBe(Math.floor(readings[0]?.ms ?? Number.NaN))
      expect(outcome.job.createdAt).toBeGreaterThanOrEqual(Math.floor(releasedAt))
      return before
    }).pipe(Effect.provide(SqliteStores.layer({ path })))
  })

it.live("the time of a write is read while it holds the lock, so that times are in the order of the commits", () =>
  Effect.gen(function* () {
    expect(yield* createWhileLocked([fixtures.newJob(2), fixtures.newJob(3)])).toEqual([])
  }),
)

it.live("so is the time of a single job that had to wait for the lock", () =>
  Effect.gen(function* () {
    // Its first attempt reads the time before the lock, and compares it with the stored time.
    expect(yield* createWhileLocked([fixtures.newJob(2)])).toHaveLength(1)
  }),
)

it.live("readers wait neither for a writer nor for waiting writers", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.gen(function* () {
      yield* create(1)
      const other = yield* child(holdLock, path, "60000")
      yield* Effect.promise(other.line)
      const writer = yield* Effect.forkChild(create(2))
      yield* Effect.yieldNow
      const store = yield* JobStore
      const [job] = yield* store.findJobs([
        { jobId: fixtures.jobId(1), principal: fixtures.ownerOf(fixtures.newJob(1)) },
      ])
      expect(job?.id).toBe(fixtures.jobId(1))
      expect(writer.pollUnsafe()).toBe(undefined)
      expect(other.process.exitCode).toBe(null)
    }).pipe(Effect.provide(SqliteStores.layer({ path })))
  }),
)

it.live("a lock that is held too long is StoreUnavailable, also for uninterruptible callers; nothing is written", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.gen(function* () {
      yield* create(1)
      const other = yield* child(holdLock, path, "60000")
      yield* Effect.promise(other.line)
      const exits = yield* Effect.forEach([2, 3, 4], (n) => Effect.exit(Effect.uninterruptible(create(n))), {
        concurrency: "unbounded",
      })
      for (const exit of exits) {
        const error = Exit.isFailure(exit) ? yield* Effect.flip(exit) : undefined
        expect(error).toMatchObject({
          _tag: "StoreUnavailable",
          operation: "JobStore.createJobs",
          cause: { code: "SQLITE_BUSY" },
        })
      }
      other.process.kill("SIGKILL")
      yield* Effect.promise(() => other.ended)
      expect((yield* Effect.forEach([2, 3, 4], create)).flat().map(({ _tag }) => _tag)).toEqual([
        "Created",
        "Created",
        "Created",
      ])
    }).pipe(Effect.provide(SqliteStores.layer({ path, retryForMs: 200 })))
  }),
)

it.live("a caller that is interrupted while waiting writes nothing, and others proceed", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.gen(function* () {
      yield* create(1)
      const other = yield* child(holdLock, path, "500")
      yield* Effect.promise(other.line)
      const first = yield* Effect.forkChild(create(2))
      const second = yield* Effect.forkChild(create(3))
      const third = yield* Effect.forkChild(create(4))
      yield* Effect.sleep(50)
      yield* Fiber.interrupt(first)
      yield* Fiber.interrupt(third)
      expect(yield* Fiber.join(second)).toMatchObject([{ _tag: "Created" }])
      expect((yield* create(5)).map(({ _tag }) => _tag)).toEqual(["Created"])
      const store = yield* JobStore
      const principal = fixtures.ownerOf(fixtures.newJob(1))
      const found = yield* store.findJobs([1, 2, 3, 4, 5].map((n) => ({ jobId: fixtures.jobId(n), principal })))
      expect(found.map((job) => job !== undefined)).toEqual([true, false, true, false, true])
    }).pipe(Effect.provide(SqliteStores.layer({ path })))
  }),
)
