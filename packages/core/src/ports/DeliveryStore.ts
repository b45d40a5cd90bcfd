import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { JobId, StoreUnavailable } from "../domain/index.ts"
import type { PendingDelivery } from "../domain/Delivery.ts"
import type { FencedOutcome } from "./JobClaim.ts"

/** A delivery that one process may make now. */
export interface ClaimedDelivery {
  readonly jobId: JobId
  readonly kind: string
  /** Fences the claim: a later one has a higher token. */
  readonly token: number
  /** 1-based, this one included. */
  readonly attempt: number
}

/** The deliveries of one kind that are not confirmed yet. */
export interface DeliveryCount {
  readonly kind: string
  /** More than 0. */
  readonly count: number
  /** The number of those that were not confirmed by their first call: a second one has begun or ended. */
  readonly repeated: number
  /** Milliseconds since the first of them could be claimed; 0 if none can be claimed now. */
  readonly oldestDueMs: number
}

/** The end of a claimed delivery. */
export interface Settlement {
  readonly jobId: JobId
  readonly token: number
  /** Milliseconds until the delivery can be claimed again; `null` removes it. */
  readonly retryInMs: number | null
  /** False if the attempt does not count, because `onFinished` was not called to its end. */
  readonly counts: boolean
}

/**
 * The deliveries of finished jobs to `onFinished`. The store creates one in the step that ends a job whose metadata is marked
 * (`withDelivery`), whichever verb ends it, and removes it with the record of its job. Like a job's, the end of a lease alone makes a
 * delivery claimable again.
 */
export class DeliveryStore extends Context.Service<
  DeliveryStore,
  {
    /** Claims up to `limit` due deliveries of these kinds, the ones that are due first, for `leaseDurationMs` of store time. */
    readonly claimDeliveries: (request: {
      readonly kinds: ReadonlyArray<string>
      readonly limit: number
      readonly leaseDurationMs: number
    }) => Effect.Effect<ReadonlyArray<ClaimedDelivery>, StoreUnavailable>
    /** Ends claims. `LeaseLost`, and nothing was written, if a claim was settled or another process has claimed since. */
    readonly settleDeliveries: (
      items: ReadonlyArray<Settlement>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /**
     * Makes deliveries of finished jobs due now, with all their calls to come: of jobs that have none any more, and those whose next call is
     * more than `deliveryLeaseMs` away. Others are `Pending`, and may be in progress; they stay as they are. The token of a new delivery is
     * higher than any that a claim of an earlier one of the job had.
     */
    readonly redeliver: (
      items: ReadonlyArray<{ readonly jobId: JobId; readonly kind: string }>,
    ) => Effect.Effect<ReadonlyArray<"Redelivered" | "Pending">, StoreUnavailable>
    /** Returns up to `limit` deliveries that are not confirmed yet, by the ids of their jobs. */
    readonly listDeliveries: (limit: number) => Effect.Effect<ReadonlyArray<PendingDelivery>, StoreUnavailable>
    /** Counts the deliveries that are not confirmed yet, by kind in code unit order. */
    readonly countDeliveries: Effect.Effect<ReadonlyArray<DeliveryCount>, StoreUnavailable>
  }
>()("@kiln/core/ports/DeliveryStore") {}
