import { assert, describe, it } from "@effect/vitest"
import { StoreUnavailable } from "@kiln/core/domain"
import { groupCommit } from "@kiln/core/effect"
import { ShortLockWait } from "@kiln/core/ports"
import { Deferred, Effect, Exit, Fiber, Logger, Scope } from "effect"

/** Pushes items into one group commit. Returns how each was settled, in order. */
const everyFate = Effect.gen(function* () {
  const settled: Array<string> = []
  const scope = yield* Scope.make()
  const unlocked = yield* Deferred.make<void>()
  const slow = yield* Deferred.make<void>()
  /** Doubles its items. 13 dies, 7 is locked by somebody else, 50 takes long. */
  const verb = Effect.fnUntraced(function* (items: ReadonlyArray<number>) {
    if (items.includes(13)) return yield* Effect.die(new Error("unlucky"))
    if (items.includes(7)) {
      if (yield* ShortLockWait)
        return yield* Effect.fail(new StoreUnavailable({ operation: "test", cause: "locked", contended: true }))
      yield* Deferred.await(unlocked)
    }
    if (items.includes(50)) yield* Deferred.await(slow)
    return items.map((item) => item * 2)
  })
  const grouped = yield* Scope.provide(groupCommit(verb), scope)
  const push = (n: number, then: () => void = () => undefined): void =>
    grouped.push([n], (exit) => {
      settled.push(`${n} ${Exit.isSuccess(exit) ? exit.value.join() : "failed"}`)
      then()
    })
  const turns = Effect.forEach(Array.from({ length: 30 }), () => Effect.yieldNow, { discard: true })

  push(1, () => push(10))
  push(2, () => {
    throw new Error("a bug in a callback")
  })
  push(3)
  yield* turns
  for (const n of [4, 13, 5]) push(n)
  yield* turns
  for (const n of [6, 7, 8]) push(n)
  yield* turns
  yield* Deferred.succeed(unlocked, undefined)
  yield* turns
  push(50)
  yield* turns
  push(60)
  const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
  yield* turns
  yield* Deferred.succeed(slow, undefined)
  yield* turns
  closing.interruptUnsafe()
  push(70)
  return settled.join("; ")
})

/** Shows how many calls of two waves are in progress at most, how many callers are answered, and what closing leaves. */
const overlapping = Effect.gen(function* () {
  const seen: Array<string> = []
  const scope = yield* Scope.make()
  let inProgress = 0
  let most = 0
  let answered = 0
  let free = yield* Deferred.make<void>()
  let freeAlone = free
  const verb = Effect.fnUntraced(function* (items: ReadonlyArray<number>) {
    inProgress += 1
    most = Math.max(most, inProgress)
    yield* Deferred.await(items.length === 1 ? freeAlone : free)
    inProgress -= 1
    return items
  })
  const grouped = yield* Scope.provide(groupCommit(verb, { parallelCalls: 2 }), scope)
  const turns = Effect.forEach(Array.from({ length: 30 }), () => Effect.yieldNow, { discard: true })
  const push = (count: number) => {
    for (let n = 0; n < count; n++)
      grouped.push([n], (exit) => {
        if (Exit.isSuccess(exit) && exit.value[0] === n) answered += 1
      })
    return turns
  }
  yield* push(1)
  yield* push(50)
  seen.push(`few callers ${most}`)
  yield* push(700)
  seen.push(`many ${most}`)
  yield* Deferred.succeed(free, undefined)
  yield* turns
  seen.push(`answered ${answered}`)
  free = yield* Deferred.make<void>()
  freeAlone = yield* Deferred.make<void>()
  yield* push(1)
  yield* push(150)
  const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
  yield* Deferred.succeed(freeAlone, undefined)
  yield* turns
  seen.push(`closed ${closing.pollUnsafe() !== undefined}`)
  yield* Deferred.succeed(free, undefined)
  yield* Fiber.join(closing)
  seen.push(`left ${inProgress}`)
  return seen.join("; ")
})

describe("callers that share calls", () => {
  it.effect("get their own items back, although one dies, one is locked and one callback throws", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* Effect.provide(everyFate, Logger.layer([])),
        "1 2; 2 4; 3 6; 10 20; 4 8; 13 failed; 5 10; 6 12; 8 16; 7 14; 50 100; 60 failed; 70 failed",
      )
    }),
  )

  it.effect("have two calls in progress only if there are many of them, and closing waits for both", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* overlapping, "few callers 1; many 2; answered 751; closed false; left 0")
    }),
  )
})
