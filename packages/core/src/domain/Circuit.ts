/** Why a provider is paused: `quota` and `configuration` are the operator's to mend, `failing` may mend itself. */
export type PauseReason = "quota" | "configuration" | "failing"

/** When a provider is paused, and for how long. Durations in milliseconds. */
export interface CircuitLimits {
  /** Failures in a row, of any jobs, after which a provider counts as failing. */
  readonly maxFailures: number
  /** The first pause of one that fails; doubled each time the call after it fails too. */
  readonly failingPauseMs: number
  readonly failingPauseMaxMs: number
  /** The same for one that says it cannot work until its operator has done something. */
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
 * Whether a provider is called. Closed: it is. Open: not before `until`; then one call finds out how it is, and the circuit
 * closes or opens again, for twice as long. Times are milliseconds of one monotonic clock.
 */
export type Circuit =
  | { readonly state: "closed"; readonly failures: number }
  | { readonly state: "open"; readonly reason: PauseReason; readonly until: number; readonly openings: number }

export const closedCircuit: Circuit = { state: "closed", failures: 0 }

/** Whether it may be called: by anybody, by one call that finds out, or not. */
export const passageOf = (circuit: Circuit, now: number): "open_to_all" | "one_call" | "paused" => {
  if (circuit.state === "closed") return "open_to_all"
  return now < circuit.until ? "paused" : "one_call"
}

/** What a call that failed says of the provider itself. */
export interface CallFailure {
  readonly reason: PauseReason
  /** Milliseconds the provider asked us to wait. */
  readonly retryAfterMs?: number | undefined
}

/**
 * After a call that failed. What is broken is paused at once, what fails only after a few in a row. Of calls that were under
 * way together, those that come back later than the one which opened the circuit change nothing: they say the same again.
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

/** What a provider asks for itself is honored up to the longest pause. */
const pauseMs = ({ reason, retryAfterMs = 0 }: CallFailure, openings: number, limits: CircuitLimits): number => {
  const [first, longest] =
    reason === "failing"
      ? [limits.failingPauseMs, limits.failingPauseMaxMs]
      : [limits.brokenPauseMs, limits.brokenPauseMaxMs]
  const asked = retryAfterMs > 0 ? retryAfterMs : 0
  return Math.min(longest, Math.max(first * 2 ** Math.min(openings - 1, 16), asked))
}
