/** Why a provider is paused: the operator has to fix `quota` and `configuration`; a `failing` provider may recover by itself. */
export type PauseReason = "quota" | "configuration" | "failing"

/** When a provider is paused, and for how long. Durations in milliseconds. */
export interface CircuitLimits {
  /** Consecutive failures, of any jobs, after which a provider counts as failing. */
  readonly maxFailures: number
  /** First pause of a failing provider, in milliseconds; doubled each time the call after the pause fails too. */
  readonly failingPauseMs: number
  readonly failingPauseMaxMs: number
  /** First pause of a provider that reports a quota or configuration problem, in milliseconds; doubled in the same way. */
  readonly brokenPauseMs: number
  readonly brokenPauseMaxMs: number
}

export const defaultCircuitLimits: CircuitLimits = {
  maxFailures: 5,
  failingPauseMs: 5_000,
  failingPauseMaxMs: 60_000,
  brokenPauseMs: 30_000,
  brokenPauseMaxMs: 300_000,
}

/**
 * A circuit breaker. Closed: the provider is called. Open: it is not called before `until`; then one trial call closes the
 * circuit or opens it again for twice as long. Times are milliseconds of one monotonic clock.
 */
export type Circuit =
  | { readonly state: "closed"; readonly failures: number }
  | { readonly state: "open"; readonly reason: PauseReason; readonly until: number; readonly openings: number }

export const closedCircuit: Circuit = { state: "closed", failures: 0 }

/** Returns whether the provider may be called: by every job, by one trial call, or not at all. */
export const passageOf = (circuit: Circuit, now: number): "open_to_all" | "one_call" | "paused" => {
  if (circuit.state === "closed") return "open_to_all"
  return now < circuit.until ? "paused" : "one_call"
}

/** What a failed call reveals about the provider itself. */
export interface CallFailure {
  readonly reason: PauseReason
  /** Milliseconds the provider asked us to wait. */
  readonly retryAfterMs?: number | undefined
}

/**
 * Returns the circuit after a failed call. A quota or configuration problem opens it immediately, other failures only after
 * several in a row. Calls that were already in progress when the circuit opened do not change it when they fail later.
 */
export const afterCallFailed = (
  circuit: Circuit,
  failure: CallFailure,
  limits: CircuitLimits,
  now: number,
): Circuit => {
  if (circuit.state === "open" && now < circuit.until) return circuit
  const failures = circuit.state === "closed" ? circuit.failures + 1 : limits.maxFailures
  if (failure.reason === "failing" && failures < limits.maxFailures) return { state: "closed", failures }
  const openings = circuit.state === "open" ? circuit.openings + 1 : 1
  return { state: "open", reason: failure.reason, until: now + pauseMs(failure, openings, limits), openings }
}

/** A provider's own request to wait is honored up to the longest pause. */
const pauseMs = ({ reason, retryAfterMs = 0 }: CallFailure, openings: number, limits: CircuitLimits): number => {
  const [first, longest] =
    reason === "failing"
      ? [limits.failingPauseMs, limits.failingPauseMaxMs]
      : [limits.brokenPauseMs, limits.brokenPauseMaxMs]
  const asked = retryAfterMs > 0 ? retryAfterMs : 0
  return Math.min(longest, Math.max(first * 2 ** Math.min(openings - 1, 16), asked))
}
