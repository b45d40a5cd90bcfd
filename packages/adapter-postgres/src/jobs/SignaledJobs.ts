import * as Effect from "effect/Effect"
import type { Database } from "../Database.ts"
import { wakeSignaled } from "./signals.ts"

/** The payload of a notification that a caller's transaction sends with a signal. */
export const signaledPayload = "signal"

/** Milliseconds after which a claim looks for signals without a notification, which may be lost or switched off. */
const lookEveryMs = 1_000

/**
 * Wakes jobs whose signals callers have committed: such a transaction locks no job, and leaves a row behind that any process may act on.
 * A claim looks for one after a notification, and once a second. Best effort: what one look does not do, the next one does.
 */
export class SignaledJobs {
  readonly #db: Pick<Database, "writeAtOnce">
  readonly #now: () => number
  #nextLookAt: number

  /** `now` returns monotonic milliseconds. */
  constructor(db: Pick<Database, "writeAtOnce">, now: () => number = () => performance.now()) {
    this.#db = db
    this.#now = now
    this.#nextLookAt = now() + lookEveryMs
  }

  /** Must be called when a notification of a signal has come: the next claim looks. */
  hear(): void {
    this.#nextLookAt = -Infinity
  }

  get wake(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const now = this.#now()
      if (now < this.#nextLookAt) return Effect.void
      this.#nextLookAt = now + lookEveryMs
      return Effect.ignore(this.#db.writeAtOnce("JobStore.claimJobs", 1, (session) => wakeSignaled(session)))
    })
  }
}
