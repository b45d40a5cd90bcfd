import type { Rate } from "../domain/Rate.ts"
import type { RateLimitStore } from "../ports/index.ts"

/** The parts of a rate of the whole installation. */
export interface SharedRateOptions {
  readonly bucket: string
  readonly rate: Rate
  readonly store: RateLimitStore["Service"]
  /** Identifies this process among those that share the store. */
  readonly process: string
  /** Called when a running job changes when there is room again, after `room` has returned 0. */
  readonly onChange: () => void
  /** Called when a job begins (1) or ends (-1) to wait for a token. */
  readonly onWait: (change: 1 | -1) => void
}
