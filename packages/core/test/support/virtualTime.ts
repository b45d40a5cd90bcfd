import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"

/** Lets newly started fibers, and work without a clock, continue before time advances. */
const turns = (count: number) =>
  Effect.promise(async () => {
    for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => void setImmediate(resolve))
  })

/** Passes exactly that much virtual time in about as many equal steps, and lets all work continue before each. */
export const passEvenly = Effect.fnUntraced(function* (durationMs: number, steps: number) {
  const stepMs = Math.ceil(durationMs / steps)
  for (let leftMs = durationMs; leftMs > 0; leftMs -= stepMs) {
    yield* turns(turnsBefore)
    yield* TestClock.adjust(Math.min(stepMs, leftMs))
  }
})

const turnsBefore = 20
const longestStepMs = 1_000

/**
 * Advances virtual time in growing steps, starting with a millisecond, until `holds`, or for exactly `atMost`. Returns whether
 * it holds. Also passes a sleep that starts late on a busy machine.
 */
export const comesTrue = Effect.fnUntraced(function* <E, R>(
  holds: Effect.Effect<boolean, E, R>,
  atMost: Duration.Input,
) {
  yield* turns(turnsBefore)
  let leftMs = Duration.toMillis(atMost)
  for (let stepMs = 1; !(yield* holds); stepMs = Math.min(longestStepMs, stepMs * 2)) {
    if (leftMs <= 0) return false
    const passedMs = Math.min(stepMs, leftMs)
    yield* TestClock.adjust(passedMs)
    yield* turns(1)
    leftMs -= passedMs
  }
  return true
})

/** Passes exactly that much virtual time. */
export const passTime = (duration: Duration.Input) => Effect.asVoid(comesTrue(Effect.succeed(false), duration))

/** Passes virtual time until `holds`, which is a defect if it does not come to within `atMost`. */
export const passUntil = <E, R>(
  what: string,
  holds: Effect.Effect<boolean, E, R>,
  atMost: Duration.Input,
): Effect.Effect<void, E, R> =>
  Effect.flatMap(comesTrue(holds, atMost), (held) =>
    held ? Effect.void : Effect.die(new Error(`${what}: not within ${JSON.stringify(atMost)}`)),
  )

/** Passes virtual time until the fiber has ended, and ends like it. */
export const ended = <A, E>(fiber: Fiber.Fiber<A, E>, atMost: Duration.Input): Effect.Effect<A, E> =>
  Effect.andThen(
    passUntil(
      "the fiber ends",
      Effect.sync(() => fiber.pollUnsafe() !== undefined),
      atMost,
    ),
    Fiber.join(fiber),
  )

/** Runs an effect while virtual time passes. */
export const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>, atMost: Duration.Input): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.forkChild(effect), (fiber) => ended(fiber, atMost))

/** Interrupts a fiber while virtual time passes. */
export const stopped = <A, E>(fiber: Fiber.Fiber<A, E>, atMost: Duration.Input): Effect.Effect<void> =>
  inTime(Fiber.interrupt(fiber), atMost)
