import { describe, expect, it } from "@effect/vitest"
import Sqlite from "better-sqlite3"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { fixtures } from "@kiln/conformance"
import { WakeUp } from "@kiln/core/ports"
import { CommitWatch } from "../src/CommitWatch.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { SqliteStores } from "../src/SqliteStores.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { jobId, newJob } = fixtures

/** A watch on one connection, and stores on another connection to the same file. `notified` counts notifications. */
const arrange = Effect.gen(function* () {
  const path = yield* temporaryFile
  const database = yield* openDatabase({ path })
  const elsewhere = storesOf(yield* openDatabase({ path })).jobs
  const watch = new CommitWatch(database)
  let notified = 0
  yield* Effect.forkScoped(watch.run(Effect.sync(() => void (notified += 1))))
  // Lets the watch notice that nobody listens.
  yield* TestClock.adjust(1)
  return { path, watch, elsewhere, here: storesOf(database).jobs, notified: () => notified }
})

const never = () => false

describe("an awaited commit", () => {
  it.effect("is detected once, within 5 ms, even if it came before the first check", () =>
    Effect.gen(function* () {
      const { elsewhere, notified, watch } = yield* arrange
      watch.awaitCommit({}, jobId(1), never)
      yield* elsewhere.createJobs([newJob(1)])
      yield* TestClock.adjust(5)
      expect(notified()).toBe(1)
      yield* elsewhere.createJobs([newJob(2)])
      yield* TestClock.adjust("20 minutes")
      expect(notified()).toBe(1)
    }),
  )

  it.effect("is checked every 25 ms for a minute, and then every second", () =>
    Effect.gen(function* () {
      const { elsewhere, notified, watch } = yield* arrange
      watch.awaitCommit({}, jobId(1), never)
      watch.awaitCommit({}, jobId(2), never)
      yield* TestClock.adjust(59_000)
      yield* elsewhere.createJobs([newJob(1)])
      yield* TestClock.adjust(25)
      expect(notified()).toBe(1)
      // After a minute, a check every second.
      yield* TestClock.adjust(2_100)
      yield* elsewhere.createJobs([newJob(2)])
      yield* TestClock.adjust(100)
      expect(notified()).toBe(1)
      yield* TestClock.adjust(900)
      expect(notified()).toBe(2)
    }),
  )

  it.effect("is checked at short intervals again after another call of the same transaction", () =>
    Effect.gen(function* () {
      const { elsewhere, notified, watch } = yield* arrange
      const transaction = {}
      watch.awaitCommit(transaction, jobId(1), never)
      yield* TestClock.adjust("5 minutes")
      watch.awaitCommit(transaction, jobId(2), never)
      yield* elsewhere.createJobs([newJob(1), newJob(2)])
      yield* TestClock.adjust(5)
      expect(notified()).toBe(1)
    }),
  )

  it.effect("is forgotten with its transaction, or after ten minutes", () =>
    Effect.gen(function* () {
      const { elsewhere, notified, watch } = yield* arrange
      let over = false
      watch.awaitCommit({}, jobId(1), () => over)
      watch.awaitCommit({}, jobId(2), never)
      yield* TestClock.adjust(1_000)
      over = true
      yield* TestClock.adjust(25)
      yield* elsewhere.createJobs([newJob(1)])
      yield* TestClock.adjust("11 minutes")
      yield* elsewhere.createJobs([newJob(2)])
      yield* TestClock.adjust(2_000)
      expect(notified()).toBe(0)
    }),
  )

  it.effect("is detected although the last job was rolled back to a savepoint", () =>
    Effect.gen(function* () {
      const { elsewhere, notified, watch } = yield* arrange
      const transaction = {}
      for (const n of [1, 2, 3]) watch.awaitCommit(transaction, jobId(n), never)
      yield* TestClock.adjust(10)
      yield* elsewhere.createJobs([newJob(1)])
      yield* TestClock.adjust(25)
      expect(notified()).toBe(1)
    }),
  )
})

describe("a listener", () => {
  it.effect("is called within 25 ms of commits of other connections, and not for its own store", () =>
    Effect.gen(function* () {
      const { elsewhere, here, watch } = yield* arrange
      // This was committed before anybody listened.
      yield* elsewhere.createJobs([newJob(1)])
      let heard = 0
      yield* watch.onCommit(() => void (heard += 1))
      yield* TestClock.adjust(1_000)
      yield* here.createJobs([newJob(2)])
      yield* TestClock.adjust(1_000)
      expect(heard).toBe(0)
      yield* elsewhere.createJobs([newJob(3)])
      yield* TestClock.adjust(25)
      expect(heard).toBe(1)
      yield* TestClock.adjust(1_000)
      expect(heard).toBe(1)
    }),
  )

  it.effect("is not called after its scope closed, while another one is", () =>
    Effect.gen(function* () {
      const { elsewhere, watch } = yield* arrange
      const heard: Array<string> = []
      const scope = yield* Scope.make()
      const hear = () => void heard.push("one")
      yield* Scope.provide(watch.onCommit(hear), scope)
      yield* Scope.provide(watch.onCommit(hear), scope)
      yield* watch.onCommit(() => void heard.push("other"))
      yield* Scope.close(scope, Exit.void)
      yield* elsewhere.createJobs([newJob(1)])
      yield* TestClock.adjust(25)
      expect(heard).toEqual(["other"])
    }),
  )

  it.effect("for a worker is called after commits of kiln's, and not after those of a program to its own tables", () =>
    Effect.gen(function* () {
      const { elsewhere, here, path, watch } = yield* arrange
      let heard = 0
      const hears = Effect.fnUntraced(function* (n: number, withinMs: number) {
        yield* TestClock.adjust(50)
        yield* elsewhere.createJobs([newJob(n)])
        yield* TestClock.adjust(withinMs)
        expect(heard).toBe(1)
        heard = 0
      })
      yield* watch.onWrite(() => void (heard += 1))
      const program = yield* Effect.acquireRelease(
        Effect.sync(() => new Sqlite(path)),
        (connection) => Effect.sync(() => connection.close()),
      )
      program.exec("CREATE TABLE notes (text TEXT)")
      yield* TestClock.adjust(2_000)
      yield* here.createJobs([newJob(1)])
      yield* TestClock.adjust(2_000)
      program.exec("INSERT INTO notes VALUES ('mine')")
      yield* TestClock.adjust(2_000)
      expect(heard).toBe(0)
      // Within a second the first time, and then within 100 ms, until nothing was heard for ten minutes.
      yield* hears(2, 1_000)
      yield* hears(3, 100)
      yield* TestClock.adjust("9 minutes")
      yield* hears(4, 100)
      yield* TestClock.adjust("11 minutes")
      yield* hears(5, 1_000)
    }),
  )

  it.effect("of a store is each worker, from its first wait on", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const { wait } = Context.get(yield* Layer.build(SqliteStores.layer({ path })), WakeUp)
      const elsewhere = storesOf(yield* openDatabase({ path })).jobs
      const waiting = yield* Effect.forkChild(wait, { startImmediately: true })
      yield* TestClock.adjust(1_000)
      expect(waiting.pollUnsafe()).toBeUndefined()
      yield* elsewhere.createJobs([newJob(1)])
      yield* TestClock.adjust(1_000)
      expect(waiting.pollUnsafe()).toEqual(Exit.void)
    }),
  )
})
