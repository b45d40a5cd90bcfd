import { assert, describe, it } from "@effect/vitest"
import { groupCommit } from "@kiln/core/effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { ShortLockWait } from "@kiln/core/ports"
import { Deferred, Effect, Exit, Fiber, Logger, Option, Scheduler, Scope } from "effect"
import { TestClock } from "effect/testing"

/** A verb that records its batches, doubles its items and fails as `fail` says. */
const recorder = (
  fail: (items: ReadonlyArray<number>) => Effect.Effect<void, StoreUnavailable> = () => Effect.void,
) => {
  const batches: Array<ReadonlyArray<number>> = []
  return {
    batches,
    verb: (items: ReadonlyArray<number>) =>
      Effect.suspend(() => {
        batches.push(items)
        return Effect.as(
          fail(items),
          items.map((item) => item * 2),
        )
      }),
  }
}

/** A recorder whose item `held` somebody else holds until it is `free`: a batch with it is contended where it is not to wait. */
const holding = Effect.fnUntraced(function* (held: number) {
  const gone = yield* Deferred.make<void>()
  const contended = new StoreUnavailable({ operation: "test", cause: `somebody else has ${held}`, contended: true })
  const recorded = recorder((items) =>
    Effect.gen(function* () {
      if (!items.includes(held)) return
      if (yield* ShortLockWait) return yield* Effect.fail(contended)
      yield* Deferred.await(gone)
    }),
  )
  return { ...recorded, free: Deferred.succeed(gone, undefined) }
})

/** Whether a fiber ends within a few turns of the scheduler. */
const endsSoon = Effect.fnUntraced(function* <A, E>(fiber: Fiber.Fiber<A, E>) {
  for (let turns = 0; turns < 50 && fiber.pollUnsafe() === undefined; turns++) yield* Effect.yieldNow
  return fiber.pollUnsafe() !== undefined
})

/** The number of the next fiber: they are counted from the start of the process. */
const newFiberId = Effect.map(Effect.forkChild(Effect.void), (fiber) => fiber.id)

const turnsUntil = Effect.fnUntraced(function* (happened: () => boolean) {
  for (let turns = 0; turns < 50 && !happened(); turns++) yield* Effect.yieldNow
})

describe("groupCommit", () => {
  it.effect("concurrent callers share one call, and each gets its own outcomes", () =>
    Effect.gen(function* () {
      const { batches, verb } = recorder()
      const grouped = yield* groupCommit(verb)
      const answers = yield* Effect.all(
        Array.from({ length: 100 }, (_, index) => grouped([index, index + 1_000])),
        { concurrency: "unbounded" },
      )
      assert.deepStrictEqual(
        answers,
        Array.from({ length: 100 }, (_, index) => [index * 2, (index + 1_000) * 2]),
      )
      assert.strictEqual(batches.length, 1)
    }),
  )

  it.effect("callers that arrive during a call join the next one, and no call exceeds the limit", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      let first = true
      const { batches, verb } = recorder(() => {
        if (!first) return Effect.void
        first = false
        return Deferred.await(gate)
      })
      const grouped = yield* groupCommit(verb)
      const early = yield* Effect.forkChild(grouped([0]))
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      const late = yield* Effect.forkChild(
        Effect.all(
          Array.from({ length: 1_200 }, (_, index) => grouped([index + 1])),
          { concurrency: "unbounded" },
        ),
      )
      yield* Effect.yieldNow
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(early)
      yield* Fiber.join(late)
      assert.deepStrictEqual(
        batches.map((batch) => batch.length),
        [1, 500, 500, 200],
      )
    }),
  )

  it.effect("an interrupted caller's items are still written", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const { batches, verb } = recorder(() => Deferred.await(gate))
      const grouped = yield* groupCommit(verb)
      const caller = yield* Effect.forkChild(grouped([1]), { startImmediately: true })
      yield* Fiber.interrupt(caller)
      yield* Deferred.succeed(gate, undefined)
      yield* grouped([2])
      assert.deepStrictEqual(batches.flat(), [1, 2])
    }),
  )

  it.effect("an item that waits for a lock delays neither its batch nor later callers", () =>
    Effect.gen(function* () {
      const { batches, free, verb } = yield* holding(1)
      const grouped = yield* groupCommit(verb)
      const [waits, goes] = yield* Effect.all([
        Effect.forkChild(grouped([1]), { startImmediately: true }),
        Effect.forkChild(grouped([2, 3]), { startImmediately: true }),
      ])
      const together = [yield* endsSoon(goes), yield* endsSoon(yield* Effect.forkChild(grouped([4])))]
      const waited = !(yield* endsSoon(waits))
      yield* free
      assert.deepStrictEqual([...together, waited], [true, true, true])
      assert.deepStrictEqual(yield* Fiber.join(waits), [2])
      assert.deepStrictEqual(batches, [[1, 2, 3], [1], [2, 3], [4]])
    }),
  )

  it.effect("a single caller that waits for a lock does not delay later callers", () =>
    Effect.gen(function* () {
      const { batches, free, verb } = yield* holding(1)
      const grouped = yield* groupCommit(verb)
      const waits = yield* Effect.forkChild(grouped([1]), { startImmediately: true })
      for (let turns = 0; turns < 50 && batches.length === 0; turns++) yield* Effect.yieldNow
      const goes = yield* endsSoon(yield* Effect.forkChild(grouped([2])))
      const waited = !(yield* endsSoon(waits))
      yield* free
      assert.deepStrictEqual([goes, waited], [true, true])
      assert.deepStrictEqual(yield* Fiber.join(waits), [2])
      assert.deepStrictEqual(batches, [[1], [1], [2]])
    }),
  )

  it.effect("a slow call gathers the callers that arrive meanwhile, however slowly they arrive", () =>
    Effect.gen(function* () {
      const { batches, verb } = recorder(() => Effect.sleep(10_000))
      const grouped = yield* groupCommit(verb)
      const callers = yield* Effect.forkChild(
        Effect.forEach([1, 2, 3, 4, 5], (n) => Effect.delay(grouped([n]), n * 1_000), { concurrency: "unbounded" }),
      )
      yield* TestClock.adjust(60_000)
      assert.isTrue(yield* endsSoon(callers))
      assert.deepStrictEqual(batches, [[1], [2, 3, 4, 5]])
    }),
  )

  it.effect("one caller's defect does not affect the others", () =>
    Effect.gen(function* () {
      const { verb } = recorder((items) => (items.includes(13) ? Effect.die(new Error("unlucky")) : Effect.void))
      const grouped = yield* groupCommit(verb)
      const exits = yield* Effect.all(
        [1, 13, 2].map((item) => Effect.exit(grouped([item]))),
        { concurrency: "unbounded" },
      )
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, false, true])
    }),
  )

  it.effect("every caller learns that the store is unavailable, from one call", () =>
    Effect.gen(function* () {
      const { batches, verb } = recorder(() => Effect.fail(new StoreUnavailable({ operation: "test", cause: "down" })))
      const grouped = yield* groupCommit(verb)
      const errors = yield* Effect.all(
        [1, 2, 3].map((item) => Effect.flip(grouped([item]))),
        { concurrency: "unbounded" },
      )
      assert.deepStrictEqual(
        errors.map((error) => error._tag),
        ["StoreUnavailable", "StoreUnavailable", "StoreUnavailable"],
      )
      assert.strictEqual(batches.length, 1)
    }),
  )

  it.effect("closing fails waiting callers instead of leaving them waiting indefinitely", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const gate = yield* Deferred.make<void>()
      const { batches, verb } = recorder(() => Deferred.await(gate))
      const grouped = yield* Scope.provide(groupCommit(verb), scope)
      const underWay = yield* Effect.forkChild(grouped([1]), { startImmediately: true })
      for (let turns = 0; turns < 50 && batches.length === 0; turns++) yield* Effect.yieldNow
      const waiting = yield* Effect.forkChild(Effect.flip(grouped([2])), { startImmediately: true })
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(yield* Fiber.join(underWay), [2])
      assert.isTrue(yield* endsSoon(waiting), "a waiting caller ends")
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "StoreUnavailable")
      assert.deepStrictEqual(batches, [[1]])
    }),
  )

  it.effect("closing waits for a caller that waits for a lock, and the caller gets its outcome", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { batches, free, verb } = yield* holding(1)
      const grouped = yield* Scope.provide(groupCommit(verb), scope)
      const waits = yield* Effect.forkChild(grouped([1]), { startImmediately: true })
      const goes = yield* Effect.forkChild(grouped([2]), { startImmediately: true })
      const went = yield* endsSoon(goes)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      const closed = yield* endsSoon(closing)
      const refused = yield* endsSoon(yield* Effect.forkChild(Effect.flip(grouped([3]))))
      yield* free
      assert.deepStrictEqual([went, closed, refused], [true, false, true])
      assert.isTrue(yield* endsSoon(closing))
      assert.deepStrictEqual(yield* Fiber.join(waits), [2])
      assert.deepStrictEqual(batches, [[1, 2], [1], [2]])
    }),
  )

  it.effect("a batch that meets a conflict while closing still answers every caller", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { batches, free, verb } = yield* holding(1)
      const asked = yield* Deferred.make<void>()
      const grouped = yield* Scope.provide(
        groupCommit((items: ReadonlyArray<number>) =>
          items.length > 1 ? Effect.andThen(Deferred.await(asked), verb(items)) : verb(items),
        ),
        scope,
      )
      const both = yield* Effect.forkChild(Effect.all([grouped([1]), grouped([2])], { concurrency: "unbounded" }), {
        startImmediately: true,
      })
      assert.isFalse(yield* endsSoon(both))
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      const late = yield* Effect.forkChild(Effect.flip(grouped([3])), { startImmediately: true })
      assert.isFalse(yield* endsSoon(closing))
      yield* Deferred.succeed(asked, undefined)
      yield* free
      assert.isTrue(yield* endsSoon(closing))
      assert.isTrue(yield* endsSoon(both))
      assert.isTrue(yield* endsSoon(late))
      assert.deepStrictEqual(yield* Fiber.join(both), [[2], [4]])
      assert.deepStrictEqual(batches, [[1, 2], [1], [2]])
    }),
  )

  it.effect("a closed batcher accepts no more items", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { verb } = recorder()
      const grouped = yield* Scope.provide(groupCommit(verb), scope)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Effect.flip(grouped([1])))._tag, "StoreUnavailable")
    }),
  )

  it.effect("an interrupted caller leaves the verb usable, wherever it was", () =>
    Effect.gen(function* () {
      const stuckAfter: Array<number> = []
      // A fiber yields after this many operations and can be interrupted there; the test interrupts it once at each operation
      // of the call.
      const operations = 40
      for (let before = 0; before < operations; before++) {
        const grouped = yield* groupCommit(recorder().verb)
        const call = Effect.gen(function* () {
          for (let done = 0; done < before; done++) yield* Effect.sync(() => done)
          return yield* grouped([1])
        }).pipe(Effect.provideService(Scheduler.MaxOpsBeforeYield, operations))
        const caller = yield* Effect.forkChild(call, { startImmediately: true })
        yield* Fiber.interrupt(caller)
        if (!(yield* endsSoon(yield* Effect.forkChild(grouped([2]))))) stuckAfter.push(before)
      }
      assert.deepStrictEqual(stuckAfter, [])
    }),
  )

  it.effect("a verb that throws before it returns an effect answers its caller and all later ones", () =>
    Effect.gen(function* () {
      let first = true
      const grouped = yield* groupCommit((items: ReadonlyArray<number>) => {
        if (!first) return Effect.succeed(items)
        first = false
        throw new TypeError("bad item")
      })
      assert.isTrue(yield* endsSoon(yield* Effect.forkChild(grouped([1]))), "the caller")
      assert.isTrue(yield* endsSoon(yield* Effect.forkChild(grouped([2]))), "the next")
    }),
  )

  it.effect("push settles each entry with its own outcomes, in one call and with one fiber", () =>
    Effect.gen(function* () {
      const { batches, verb } = recorder()
      const grouped = yield* groupCommit(verb)
      const before = yield* newFiberId
      const settled: Array<unknown> = []
      for (let n = 0; n < 100; n++) grouped.push([n], (exit) => settled.push(Exit.getSuccess(exit)))
      assert.deepStrictEqual(settled, [], "nothing is settled before the call")
      yield* turnsUntil(() => settled.length === 100)
      assert.strictEqual((yield* newFiberId) - before, 2, "the batch's fiber and the one that counts")
      assert.deepStrictEqual(
        settled,
        Array.from({ length: 100 }, (_, n) => Option.some([n * 2])),
      )
      assert.strictEqual(batches.length, 1)
    }),
  )

  it.effect("a callback that pushes again is settled by a later call, and no item is written twice", () =>
    Effect.gen(function* () {
      const { batches, verb } = recorder()
      const grouped = yield* groupCommit(verb)
      const settled: Array<number> = []
      const pushFrom = (n: number): void =>
        grouped.push([n], () => {
          settled.push(n)
          if (n < 30) pushFrom(n + 10)
        })
      for (const n of [1, 2, 3]) pushFrom(n)
      yield* turnsUntil(() => settled.length === 12)
      assert.deepStrictEqual(batches, [
        [1, 2, 3],
        [11, 12, 13],
        [21, 22, 23],
        [31, 32, 33],
      ])
      assert.deepStrictEqual(settled, batches.flat())
    }),
  )

  it.effect("an exception in one callback is logged, and the others are settled", () => {
    const logged: Array<unknown> = []
    const log = Logger.layer([Logger.make(({ message }) => void logged.push(message))])
    return Effect.gen(function* () {
      const { verb } = recorder()
      const grouped = yield* groupCommit(verb)
      const settled: Array<number> = []
      for (const n of [1, 2, 3])
        grouped.push([n], () => {
          if (n === 2) throw new Error("a bug in a callback")
          settled.push(n)
        })
      yield* turnsUntil(() => settled.length === 2)
      assert.deepStrictEqual(settled, [1, 3])
      assert.strictEqual(logged.length, 1)
      assert.deepStrictEqual(yield* grouped([4]), [8], "the next call works")
    }).pipe(Effect.provide(log))
  })

  it.effect("a batch that died is tried entry by entry, and each callback is called once", () =>
    Effect.gen(function* () {
      const { batches, verb } = recorder((items) =>
        items.includes(13) ? Effect.die(new Error("unlucky")) : Effect.void,
      )
      const grouped = yield* groupCommit(verb)
      const settled: Array<readonly [number, boolean]> = []
      for (const n of [1, 13, 2]) grouped.push([n], (exit) => settled.push([n, Exit.isSuccess(exit)]))
      yield* turnsUntil(() => settled.length === 3)
      assert.deepStrictEqual(settled, [
        [1, true],
        [13, false],
        [2, true],
      ])
      assert.deepStrictEqual(batches, [[1, 13, 2], [1], [13], [2]])
    }),
  )

  it.effect("push to a closed batcher settles at once with StoreUnavailable", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { batches, verb } = recorder()
      const grouped = yield* Scope.provide(groupCommit(verb), scope)
      let pending: Exit.Exit<ReadonlyArray<number>, StoreUnavailable> | undefined
      grouped.push([1], (exit) => {
        pending = exit
      })
      yield* Scope.close(scope, Exit.void)
      let refused: Exit.Exit<ReadonlyArray<number>, StoreUnavailable> | undefined
      grouped.push([2], (exit) => {
        refused = exit
      })
      for (const exit of [pending, refused]) {
        if (exit === undefined) throw new Error("a callback was not called")
        assert.strictEqual((yield* Effect.flip(exit))._tag, "StoreUnavailable")
      }
      assert.deepStrictEqual(batches, [])
    }),
  )

  describe("calls that overlap", () => {
    /** Calls that take until they are let go. */
    const slowCalls = Effect.fnUntraced(function* (parallelCalls: number | undefined) {
      const free = yield* Deferred.make<void>()
      const { batches, verb } = recorder(() => Deferred.await(free))
      const scope = yield* Scope.make()
      const grouped = yield* Scope.provide(groupCommit(verb, { parallelCalls }), scope)
      const settled: Array<number> = []
      const push = (first: number, count: number) => {
        for (let n = first; n < first + count; n++)
          grouped.push([n], (exit) => settled.push(Exit.isSuccess(exit) ? (exit.value[0] ?? -1) : -1))
      }
      return { batches, free: Deferred.succeed(free, undefined), push, scope, settled }
    })

    it.effect("a second call is made while a hundred callers wait, and each gets its own outcome", () =>
      Effect.gen(function* () {
        const { batches, free, push, settled } = yield* slowCalls(2)
        push(0, 1)
        yield* turnsUntil(() => batches.length === 1)
        push(1, 99)
        yield* turnsUntil(() => batches.length === 2)
        assert.strictEqual(batches.length, 1, "99 callers wait for the call in progress")
        push(100, 1)
        yield* turnsUntil(() => batches.length === 2)
        assert.strictEqual(batches[1]?.length, 100)
        push(101, 300)
        yield* turnsUntil(() => batches.length === 3)
        assert.strictEqual(batches.length, 2, "never a third call")
        yield* free
        yield* turnsUntil(() => settled.length === 401)
        assert.deepStrictEqual(
          settled.toSorted((a, b) => a - b),
          Array.from({ length: 401 }, (_, n) => 2 * n),
        )
        assert.deepStrictEqual(
          batches.flat().toSorted((a, b) => a - b),
          Array.from({ length: 401 }, (_, n) => n),
        )
      }),
    )

    it.effect("without parallelCalls, there is one call at a time", () =>
      Effect.gen(function* () {
        const { batches, free, push, settled } = yield* slowCalls(undefined)
        push(0, 1)
        yield* turnsUntil(() => batches.length === 1)
        push(1, 1_000)
        yield* turnsUntil(() => batches.length === 2)
        assert.strictEqual(batches.length, 1)
        yield* free
        yield* turnsUntil(() => settled.length === 1_001)
        assert.strictEqual(settled.length, 1_001)
      }),
    )

    it.effect("closing waits for each call and refuses what waits", () =>
      Effect.gen(function* () {
        const { batches, free, push, scope, settled } = yield* slowCalls(2)
        push(0, 1)
        yield* turnsUntil(() => batches.length === 1)
        push(1, 100)
        yield* turnsUntil(() => batches.length === 2)
        push(101, 1)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        assert.isFalse(yield* endsSoon(closing), "two calls are in progress")
        yield* free
        yield* Fiber.join(closing)
        assert.strictEqual(settled.filter((outcome) => outcome >= 0).length, 101)
        assert.strictEqual(settled.filter((outcome) => outcome < 0).length, 1)
      }),
    )

    it.effect("a call that was about to begin at the close is not made", () =>
      Effect.gen(function* () {
        const { batches, free, push, scope, settled } = yield* slowCalls(2)
        push(0, 1)
        yield* turnsUntil(() => batches.length === 1)
        push(1, 100)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        yield* turnsUntil(() => batches.length === 2)
        assert.strictEqual(batches.length, 1)
        yield* free
        yield* Fiber.join(closing)
        assert.strictEqual(settled.filter((outcome) => outcome < 0).length, 100)
      }),
    )
  })
})
