import { Clock, Effect, Exit, Option, Semaphore } from "effect"
import { afterCallFailed, type CallFailure, type Circuit, closedCircuit, passageOf } from "../domain/Circuit.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { type AttemptError, ProviderPaused } from "../kinds/AttemptContext.ts"
import { type ProviderName, type ProviderStanding, providerUnavailable } from "../ports/index.ts"
import { abandonable } from "./abandonable.ts"
import { monotonicMs } from "./monotonicMs.ts"
import { type CallOutcome, countCall, reportStanding } from "./providerMetrics.ts"

/**
 * Jobs in hand for each place, those that have it among them: the next one is there when it gets free, and no more of them
 * wait in the worker's slots, which others need.
 */
const waitingPerPlace = 2

/** The guard of one live provider of this process: its circuit, its places, the time a call may take. */
export const makeProviderPost = Effect.fnUntraced(function* (name: ProviderName, changed: Effect.Effect<void>) {
  const { circuit: limits, providers } = yield* EngineConfig
  const { callLimitMs, concurrency } = providers[name]
  const places = concurrency > 0 ? yield* Semaphore.make(concurrency) : undefined
  const { circuit, learn, standing } = yield* makeCircuit(name, limits, changed)
  let calls = 0
  let inHand = 0

  const callOnce = <A>(
    mayBuy: Effect.Effect<void, AttemptError>,
    hadToWait: boolean,
    call: Effect.Effect<A, AttemptError>,
  ): Effect.Effect<A, AttemptError> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const { leave, probes } = yield* circuit.enter
        const bought = Effect.timeoutOrElse(abandonable(call), {
          duration: callLimitMs,
          orElse: () => Effect.fail(providerUnavailable(`no answer within ${callLimitMs / 1_000} s`)),
        })
        const learned = Effect.gen(function* () {
          const beganAt = yield* monotonicMs
          const exit = yield* Effect.exit(restore(bought))
          yield* learn(exit, probes, (yield* monotonicMs) - beganAt)
          return yield* exit
        })
        const asked = hadToWait ? Effect.andThen(restore(mayBuy), learned) : learned
        return yield* Effect.ensuring(asked, leave)
      }),
    )

  return {
    standing,
    /** Milliseconds until it is tried again; `undefined` unless it is paused. */
    nextTryInMs: circuit.nextTryInMs,
    /**
     * How many more jobs that ask it should be claimed: none while it is paused, one to find out, and else as many as there
     * are places to wait.
     */
    room: Effect.map(circuit.passage, (passage) => {
      if (passage === "paused") return 0
      const left = concurrency === 0 ? Infinity : Math.max(0, waitingPerPlace * concurrency - inHand)
      return passage === "one_call" ? Math.min(1, left) : left
    }),
    /** A job that asks it is in hand, or no longer. */
    holds: (change: 1 | -1): void => {
      inHand += change
    },
    /** Makes a call, within the bounds. `mayBuy` is asked once more where the call had to wait. */
    through: <A>(mayBuy: Effect.Effect<void, AttemptError>, call: Effect.Effect<A, AttemptError>) =>
      Effect.suspend(() => {
        const once = callOnce(mayBuy, concurrency > 0 && calls >= concurrency, call)
        return Effect.acquireUseRelease(
          Effect.sync(() => void calls++),
          () => (places === undefined ? once : places.withPermit(once)),
          () => Effect.sync(() => void calls--),
        )
      }),
  }
})

export type ProviderPost = Effect.Success<ReturnType<typeof makeProviderPost>>

/** Whether one provider is called, and what its calls say of it. */
const makeCircuit = Effect.fnUntraced(function* (
  name: ProviderName,
  limits: Parameters<typeof afterCallFailed>[2],
  changed: Effect.Effect<void>,
) {
  let circuit = closedCircuit
  let since = yield* Clock.currentTimeMillis
  /** Whether the one call that finds out if it works again is under way. */
  let isProbed = false
  yield* reportStanding(name, null)

  const become = Effect.fnUntraced(function* (next: Circuit) {
    const before = circuit
    circuit = next
    if (before === next || (before.state === "closed" && next.state === "closed")) return
    since = yield* Clock.currentTimeMillis
    yield* reportStanding(name, next.state === "open" ? next.reason : null)
    yield* sayStanding(name, next, yield* monotonicMs)
    yield* changed
  })

  /** What has come to its time may be tried, as long as nobody does. */
  const passage = Effect.map(monotonicMs, (now) => {
    const allowed = passageOf(circuit, now)
    return allowed === "one_call" && isProbed ? "paused" : allowed
  })

  return {
    circuit: {
      passage,
      /**
       * Lets a call in; says whether it is the one that finds out, and what to do afterwards. Nobody waits for that one: it may
       * take as long as a call may, and who waits does so in a slot and within the run limit.
       */
      enter: Effect.gen(function* () {
        const allowed = yield* passage
        if (allowed === "open_to_all") return { probes: false, leave: Effect.void }
        if (allowed === "paused") return yield* new ProviderPaused({ provider: name })
        isProbed = true
        return { probes: true, leave: Effect.sync(() => void (isProbed = false)) }
      }),
      nextTryInMs: Effect.map(monotonicMs, (now) =>
        circuit.state === "open" && circuit.until > now ? Math.ceil(circuit.until - now) : undefined,
      ),
    },
    learn: Effect.fnUntraced(function* (exit: Exit.Exit<unknown, AttemptError>, probed: boolean, durationMs: number) {
      const { failure, outcome } = readExit(exit)
      yield* countCall(name, outcome, durationMs)
      if (failure !== undefined) yield* become(afterCallFailed(circuit, failure, limits, yield* monotonicMs))
      // An answer to a call from before the pause says nothing of the time since.
      else if (outcome !== "interrupted" && (probed || circuit.state === "closed")) yield* become(closedCircuit)
    }),
    // One whose time has come and whom nobody has tried yet is not known to work.
    standing: Effect.sync((): ProviderStanding =>
      circuit.state === "open"
        ? { provider: name, status: "paused", reason: circuit.reason, since }
        : { provider: name, status: "ready", reason: null, since },
    ),
  }
})

const sayStanding = (name: ProviderName, circuit: Circuit, now: number): Effect.Effect<void> =>
  circuit.state === "open"
    ? Effect.logWarning(
        `the provider of ${name} is paused (${circuit.reason}): tried again in ${Math.ceil((circuit.until - now) / 1_000)} s`,
      )
    : Effect.logInfo(`the provider of ${name} works again`)

/** What a call came to, and what that says of the provider. What a caller may bring about by a request says nothing against it. */
const readExit = (
  exit: Exit.Exit<unknown, AttemptError>,
): { readonly outcome: CallOutcome; readonly failure: CallFailure | undefined } => {
  if (Exit.isSuccess(exit)) return { outcome: "answered", failure: undefined }
  const error = Option.getOrUndefined(Exit.findErrorOption(exit))
  switch (error?._tag) {
    case "ProviderBroken":
      return { outcome: "broken", failure: { reason: error.reason, retryAfterMs: error.retryAfterMs } }
    case "ProviderFailure":
      if (error.errorCode === "result_invalid") return { outcome: "invalid", failure: undefined }
      return error.retry
        ? { outcome: "failed", failure: { reason: "failing", retryAfterMs: error.retryAfterMs } }
        : { outcome: "refused", failure: undefined }
    case "AttemptFailed":
      return { outcome: "invalid", failure: undefined }
    default:
      return { outcome: "interrupted", failure: undefined }
  }
}
