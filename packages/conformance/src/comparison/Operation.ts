import { expect } from "@effect/vitest"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import fc from "fast-check"
import { sameValue } from "../model/jobFields.ts"
import type { Stores } from "../Check.ts"
import type { History } from "./History.ts"
import { observe } from "./observe.ts"
import type { World } from "./World.ts"

/** One step of a history: performed on both stores, whose answers must agree. */
export interface Operation {
  /** The store's verb, or what happens besides; no job may move but by its verb. */
  readonly name: string
  readonly perform: (history: History, world: World) => Effect.Effect<void, unknown>
  readonly [fc.toStringMethod]: () => string
}

interface Options<A, B> {
  readonly record?: (answer: B, history: History, args: A) => void
  readonly compare?: (expected: B, actual: B) => void
  /** `false`: several verbs, or an effect that cannot be read back; it is never interrupted. */
  readonly atomic?: boolean
}

/** Never, or after so many turns of the scheduler; 0 is before it began. */
const interruption = fc.oneof(
  { weight: 19, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 3 }) },
)

/**
 * Makes an operation from its arguments. `call` turns them into one effect for both stores;
 * `record` notes what the reference answered.
 */
export const operation = <A, B>(
  name: string,
  args: fc.Arbitrary<A>,
  call: (args: A, history: History) => Effect.Effect<B, unknown, Stores>,
  options: Options<A, B> = {},
): fc.Arbitrary<Operation> =>
  fc.tuple(args, options.atomic === false ? fc.constant(undefined) : interruption).map(([value, turns]) => ({
    name,
    perform: Effect.fnUntraced(function* (history, world) {
      const effect = call(value, history)
      const actual = yield* turns === undefined
        ? Effect.exit(Effect.provideContext(effect, world.actor()))
        : interrupted(effect, turns, history, world)
      if (actual === "did not happen") return history.sighted("interrupted: did not happen")
      if (actual === "happened") history.sighted("interrupted: happened")
      const expected = yield* Effect.exit(Effect.provideContext(effect, world.reference))
      if (actual !== "happened") compareExits(name, expected, actual, options.compare)
      if (Exit.isSuccess(expected)) options.record?.(expected.value, history, value)
    }),
    [fc.toStringMethod]: () =>
      `${name} ${fc.stringify(value)}${turns === undefined ? "" : `, interrupted after ${turns} turns`}`,
  }))

const compareExits = <B>(
  name: string,
  expected: Exit.Exit<B, unknown>,
  actual: Exit.Exit<B, unknown>,
  compare: Options<unknown, B>["compare"],
): void => {
  if (Exit.isFailure(expected))
    expect(Exit.isFailure(actual) && Cause.hasDies(actual.cause), `${name} is a defect`).toBe(true)
  else if (Exit.isFailure(actual)) throw new Error(`${name} failed: ${Cause.pretty(actual.cause)}`)
  else if (compare === undefined) expect(actual.value, name).toEqual(expected.value)
  else compare(expected.value, actual.value)
}

/**
 * The verb's end if it came before the interruption; else whether the store shows that it happened.
 * It must have happened as a whole, which the comparison with the reference shows, or not at all.
 */
const interrupted = Effect.fnUntraced(function* <B>(
  effect: Effect.Effect<B, unknown, Stores>,
  turns: number,
  history: History,
  world: World,
) {
  const actor: Context.Context<Stores> = world.actor()
  const look = Effect.provideContext(observe(history), world.watcher())
  const before = yield* look
  const fiber = yield* Effect.forkChild(Effect.provideContext(effect, actor), { startImmediately: turns > 0 })
  for (let turn = 1; turn < turns; turn++) yield* Effect.yieldNow
  yield* Fiber.interrupt(fiber)
  const exit = yield* Fiber.await(fiber)
  if (Exit.isSuccess(exit) || !Cause.hasInterruptsOnly(exit.cause)) return exit
  return sameValue(before, yield* look) ? "did not happen" : "happened"
})
