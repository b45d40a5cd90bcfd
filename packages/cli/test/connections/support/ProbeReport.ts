/** Milliseconds. */
export interface Latencies {
  readonly max: number
  readonly p99: number
  readonly p50: number
}

/** What another client saw of the target while it was attacked. */
export interface ProbeReport {
  readonly asked: number
  readonly unanswered: number
  /** From the request to the end of its answer. */
  readonly whole: Latencies
  /** Of that, time in which the target's main thread or the client waited for a processor that others had. */
  readonly machine: Latencies
  /** The rest: what the target itself took. */
  readonly target: Latencies
}
