import type { JobId } from "./Ids.ts"
import type { JsonObject } from "./givenValues.ts"

/**
 * The name under which a job's metadata says that its end is to be delivered to `onFinished`. Like the trace, it is no field of a
 * request.
 */
export const deliveryField = "kiln:on_finished"

/**
 * The end of the JSON text of marked metadata. No other text ends like this: quotes in a value are escaped, and an object in it, such as
 * what a caller has attached, ends before the whole does.
 */
export const deliveryMark = `"${deliveryField}":true}`

/** Marks the metadata of a new job, once it is complete: the store creates a delivery in the step that ends the job. */
export const withDelivery = (metadata: JsonObject): JsonObject => ({ ...metadata, [deliveryField]: true })

export const isDelivered = (metadata: JsonObject): boolean => Object.hasOwn(metadata, deliveryField)

/** The end of a job that `onFinished` has not confirmed yet. */
export interface PendingDelivery {
  readonly jobId: JobId
  readonly kind: string
  /** When it can be claimed, in store time: the end of the job at first, then the end of a lease or of a pause. */
  readonly dueAt: number
  /** Calls that began. */
  readonly attempts: number
  /** Grows with each claim and with each end of one. */
  readonly token: number
}

/** Calls of `onFinished` for one job, after which it is given up. With the pauses between them, that takes more than a day. */
export const maxDeliveryAttempts = 10

/** Milliseconds for which a process holds a delivery: longer than a call, by the time that it takes to read the job and to write the end. */
export const deliveryLeaseMs = 60_000

const shortestPauseMs = 5_000
const longestPauseMs = 6 * 3_600_000

/**
 * Returns the pause after a failed call, in milliseconds: from 5 s, four times as long after each, at most 6 h. `chance` from 0 to 1
 * shortens it by up to a fifth, so that the calls after an outage do not come at once. `undefined` after the last call.
 */
export const deliveryPauseMs = (attempt: number, chance: number): number | undefined =>
  attempt >= maxDeliveryAttempts
    ? undefined
    : Math.round(Math.min(shortestPauseMs * 4 ** (attempt - 1), longestPauseMs) * (1 - chance / 5))
