import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import {
  afterAnswerInvalid,
  afterCallFailed,
  type CallFailure,
  type CallSource,
  type Circuit,
  type CircuitLimits,
  closedCircuit,
  passageOf,
  type PauseReason,
} from "../domain/Circuit.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import type { ProviderError } from "./ProviderError.ts"

/** The outcome of a call, as the metrics name it. */
type CallOutcome = "answered" | "failed" | "refused" | "broken" | "invalid" | "interrupted"

/** Upper bounds of the buckets of `providerCallSeconds`. */
export const providerCallBoundaries = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

export const providerCalls = Metric.counter("kiln_provider_calls_total", {
  description: "Finished calls of live providers by outcome",
  incremental: true,
})
export const providerCallSeconds = Metric.histogram("kiln_provider_call_seconds", {
  description: "Duration of calls of live providers",
  boundaries: providerCallBoundaries,
})
export const providerPaused = Metric.gauge("kiln_provider_paused", {
  description: "1 while a live provider is paused for this reason",
})

/** Receives what the metrics above receive, for a backend that does not read Effect's registry. It must not throw. */
export interface ProviderMeter {
  readonly called: (provider: string, outcome: CallOutcome, durationMs: number) => void
  /** Whether the provider is paused for this reason. */
  readonly paused: (provider: string, reason: PauseReason, isPaused: boolean) => void
}

/** The meter of this process's live providers; by default, there is only Effect's registry. */
export const ProviderMeter = Context.Reference<ProviderMeter | undefined>("@kiln/core/providers/ProviderMeter", {
  defaultValue: () => undefined,
})

const tell = (what: (meter: ProviderMeter) => void): Effect.Effect<void> =>
  Effect.map(ProviderMeter, (meter) => {
    if (meter !== undefined) what(meter)
  })

const countCall = (provider: string, outcome: CallOutcome, durationMs: number): Effect.Effect<void> =>
  Effect.all(
    [
      Metric.update(Metric.withAttributes(providerCalls, { provider, outcome }), 1),
      Metric.update(Metric.withAttributes(providerCallSeconds, { provider }), durationMs / 1_000),
      tell(({ called }) => called(provider, outcome, durationMs)),
    ],
    { discard: true },
  )

const reasons: ReadonlyArray<PauseReason> = ["quota", "configuration", "failing"]

/** Sets the gauges of a provider. `null` means that it is not paused. */
const reportStanding = (provider: string, reason: PauseReason | null): Effect.Effect<void> =>
  Effect.forEach(
    reasons,
    (each) =>
      Effect.andThen(
        Metric.update(Metric.withAttributes(providerPaused, { provider, reason: each }), each === reason ? 1 : 0),
        tell(({ paused }) => paused(provider, each, each === reason)),
      ),
    { discard: true },
  )

/** A provider is paused in this process because it fails or is broken. The job is released and retried later. */
export class ProviderPaused extends Data.TaggedError("ProviderPaused")<{ readonly provider: string }> {}

/** The state of a worker's provider, as the worker publishes it. */
export interface ProviderStanding {
  /** The port it serves: `transcription`, `speech`, … */
  readonly provider: string
  readonly status: "ready" | "paused"
  /** Why it is paused: the operator must fix `quota` and `configuration`, `failing` may end by itself; `null` when ready. */
  readonly reason: "quota" | "configuration" | "failing" | null
  /** When it entered this state, unix milliseconds by the worker's clock. */
  readonly since: number
  /**
   * When it is tried again, unix milliseconds by the worker's clock: while it is paused, unless the worker has an earlier version.
   */
  readonly nextTryAt?: number
}

/** Creates the circuit breaker of one provider. It decides whether calls may go out, and learns from their outcomes. */
export const makeCircuitBreaker = Effect.fnUntraced(function* (
  name: string,
  limits: CircuitLimits,
  changed: Effect.Effect<void>,
) {
  let circuit = closedCircuit
  let since = yield* Clock.currentTimeMillis
  let isProbing = false
  yield* reportStanding(name, null)

  const become = Effect.fnUntraced(function* (next: Circuit) {
    const before = circuit
    circuit = next
    if (before === next || (before.state === "closed" && next.state === "closed")) return
    since = yield* Clock.currentTimeMillis
    yield* reportStanding(name, next.state === "open" ? next.reason : null)
    yield* logStanding(name, next, yield* monotonicMs)
    yield* changed
  })

  /** After a pause one call probes the provider; it stays paused for all others until the probe ends. */
  const passage = Effect.map(monotonicMs, (now) => {
    const allowed = passageOf(circuit, now)
    return allowed === "one_call" && isProbing ? "paused" : allowed
  })

  return {
    passage,
    /** Whether it is paused, or waits for the outcome of a probe. */
    isOpen: (): boolean => circuit.state === "open",
    /** Fails if a call would not be admitted now. */
    mayEnter: Effect.flatMap(passage, (allowed) =>
      allowed === "paused" ? Effect.fail(new ProviderPaused({ provider: name })) : Effect.void,
    ),
    /**
     * Admits a call. Returns whether it is the probe, and what to do when it ends. Other calls fail instead of waiting for the
     * probe, because they would hold a slot and use up their run limit.
     */
    enter: Effect.gen(function* () {
      const allowed = yield* passage
      if (allowed === "open_to_all") return { isProbe: false, leave: Effect.void }
      if (allowed === "paused") return yield* new ProviderPaused({ provider: name })
      isProbing = true
      return { isProbe: true, leave: Effect.sync(() => void (isProbing = false)) }
    }),
    nextTryInMs: Effect.map(monotonicMs, (now) =>
      circuit.state === "open" && circuit.until > now ? Math.ceil(circuit.until - now) : undefined,
    ),
    /** Records how a call ended: in the metrics, and in the state of the circuit. An invalid answer needs to have a source to count. */
    record: Effect.fnUntraced(function* (
      exit: Exit.Exit<unknown, unknown>,
      isProbe: boolean,
      durationMs: number,
      source: CallSource | undefined,
    ) {
      const { failure, outcome } = readExit(exit)
      yield* countCall(name, outcome, durationMs)
      if (failure !== undefined) return yield* become(afterCallFailed(circuit, failure, limits, yield* monotonicMs))
      // A call that began before the pause does not show whether the provider works now.
      const isRecent = outcome !== "interrupted" && (isProbe || circuit.state === "closed")
      if (!isRecent) return
      const isSuspect = outcome === "invalid" && source !== undefined
      yield* become(isSuspect ? afterAnswerInvalid(circuit, source, limits, yield* monotonicMs) : closedCircuit)
    }),
    /** Paused until a probe succeeds, also after the pause is over. */
    standing: Effect.gen(function* (): Effect.fn.Return<ProviderStanding> {
      if (circuit.state === "closed") return { provider: name, status: "ready", reason: null, since }
      const now = yield* Clock.currentTimeMillis
      const nextTryAt = Math.ceil(now + circuit.until - (yield* monotonicMs))
      return { provider: name, status: "paused", reason: circuit.reason, since, nextTryAt }
    }),
  }
})

const logStanding = (name: string, circuit: Circuit, now: number): Effect.Effect<void> =>
  circuit.state === "open"
    ? Effect.logWarning(
        `the ${name} provider is paused (${circuit.reason}); next attempt in ${Math.ceil((circuit.until - now) / 1_000)} s`,
      )
    : Effect.logInfo(`the ${name} provider works again`)

/** Interprets the end of a call. Failures that a request can cause do not count against it. */
const readExit = (
  exit: Exit.Exit<unknown, unknown>,
): { readonly outcome: CallOutcome; readonly failure: CallFailure | undefined } => {
  if (Exit.isSuccess(exit)) return { outcome: "answered", failure: undefined }
  // Other errors, such as a blob store's, reveal nothing about the provider.
  const error = Option.getOrUndefined(Exit.findErrorOption(exit)) as ProviderError | { readonly _tag?: undefined }
  switch (error?._tag) {
    case "ProviderBroken":
      return { outcome: "broken", failure: { reason: error.reason, retryAfterMs: error.retryAfterMs } }
    case "ProviderFailure":
      if (error.errorCode === "result_invalid") return { outcome: "invalid", failure: undefined }
      return error.retry
        ? { outcome: "failed", failure: { reason: "failing", retryAfterMs: error.retryAfterMs } }
        : { outcome: "refused", failure: undefined }
    default:
      return { outcome: "interrupted", failure: undefined }
  }
}
