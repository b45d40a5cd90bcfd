/** The limits of a drain. */
export interface DrainLimits {
  /** Milliseconds after which no job begins, and those that run are released. */
  readonly maxMs: number
  /** Maximum number of attempts. No limit by default. */
  readonly maxJobs?: number
}

/** The result of a drain. */
export interface Drained {
  /** Number of attempts that began. A job that failed and was tried again, or that waits for others, has several. */
  readonly attempts: number
  /** Number of jobs that an attempt completed. */
  readonly done: number
  /** Number of jobs that failed for good in an attempt. */
  readonly failed: number
  /** `empty`: no job was left that could begin now. */
  readonly stoppedBy: "empty" | "maxJobs" | "maxMs"
}
