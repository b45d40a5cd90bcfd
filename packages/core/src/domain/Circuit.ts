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

/** The job that a call was made for, as far as the circuit distinguishes jobs. */
export interface CallSource {
  /** Identifies the project and key. */
  readonly caller: string
  readonly kind: string
}

/** Invalid answers in a row. */
interface InvalidRun {
  readonly count: number
  readonly callers: ReadonlyArray<string>
  readonly kinds: ReadonlyArray<string>
}

/**
 * A circuit breaker. Closed: the provider is called. Open: it is not called before `until`; then one trial call closes the
 * circuit or opens it again for twice as long. Times are milliseconds of one monotonic clock.
 */
export type Circuit =
  | { readonly state: "closed"; readonly failures: number; readonly invalid?: InvalidRun }
  | {
      readonly state: "open"
      readonly reason: PauseReason
      readonly until: number
      readonly openings: number
      /** Whether invalid answers opened it. */
      readonly isInvalid?: true
    }

export const closedCircuit: Circuit = { state: "closed", failures: 0 }

/** Returns whether the provider may be called: by every job, by one trial call, or not at all. */
export const passageOf = (circuit: Circuit, now: number): "open_to_all" | "one_call" | "paused" => {
  if (circuit.state === "closed") return "open_to_all"
  return now < circuit.until ? "paused" : "one_call"
}

/** The information about the provider itself in a failed call. */
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
  if (failure.reason === "failing" && failures < limits.maxFailures) return withFailures(circuit, failures)
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

const withFailures = (circuit: Circuit, failures: number): Circuit =>
  circuit.state === "closed" && circuit.invalid !== undefined
    ? { state: "closed", failures, invalid: circuit.invalid }
    : { state: "closed", failures }

/**
 * From how many callers, or how many kinds, invalid answers must come to count against the provider. The request of one caller may
 * be the reason for an invalid answer, and must not stop the others. No built-in provider is called by as many kinds.
 */
const leastSources = 3

const including = (known: ReadonlyArray<string>, one: string): ReadonlyArray<string> =>
  // More than enough are not kept.
  known.includes(one) || known.length >= leastSources ? known : [...known, one]

/**
 * Returns the circuit after an invalid answer. `maxFailures` of them in a row open it if they come from several callers or kinds, as
 * does an invalid answer to the trial call after that. After any other pause, an invalid answer shows that the provider works.
 */
export const afterAnswerInvalid = (
  circuit: Circuit,
  { caller, kind }: CallSource,
  limits: CircuitLimits,
  now: number,
): Circuit => {
  if (circuit.state === "open" && now < circuit.until) return circuit
  if (circuit.state === "open" && circuit.isInvalid === true) return openForInvalid(circuit.openings + 1, limits, now)
  const before = (circuit.state === "closed" ? circuit.invalid : undefined) ?? { count: 0, callers: [], kinds: [] }
  const invalid: InvalidRun = {
    count: before.count + 1,
    callers: including(before.callers, caller),
    kinds: including(before.kinds, kind),
  }
  const isSpread = invalid.callers.length >= leastSources || invalid.kinds.length >= leastSources
  return isSpread && invalid.count >= limits.maxFailures
    ? openForInvalid(1, limits, now)
    : { state: "closed", failures: 0, invalid }
}

const openForInvalid = (openings: number, limits: CircuitLimits, now: number): Circuit => ({
  state: "open",
  reason: "failing",
  until: now + pauseMs({ reason: "failing" }, openings, limits),
  openings,
  isInvalid: true,
})
