// Run by groupCommit.proof.ts in a process of its own, with and without a bug planted: pushes items into one group commit
// and prints, on a line each, how they were settled and with which calls of the verb.
import { StoreUnavailable } from "@kiln/core/domain"
import { groupCommit } from "@kiln/core/effect"
import { ShortLockWait } from "@kiln/core/ports"
import { Deferred, Effect, Exit, Logger, Scope } from "effect"

const calls: Array<ReadonlyArray<number>> = []
const settled: Array<string> = []

const program = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const unlocked = yield* Deferred.make<void>()
  const slow = yield* Deferred.make<void>()
  /** Doubles its items. 13 dies, 7 is locked by somebody else, 50 takes long. */
  const verb = Effect.fnUntraced(function* (items: ReadonlyArray<number>) {
    calls.push(items)
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
})

await Effect.runPromise(Effect.provide(program, Logger.layer([])))
console.log(`settled: ${settled.join("; ")}`)
console.log(`calls: ${calls.map((call) => call.join("+")).join("; ")}`)
