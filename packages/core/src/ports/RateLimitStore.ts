import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { PortionRequest, StoreUnavailable, TakenPortion } from "../domain/index.ts"

/** A request for a portion of one bucket. */
export interface BucketRequest extends PortionRequest {
  readonly bucket: string
}

/**
 * Token buckets that all processes of an installation share. A store whose records live in one process does not need it: there, the
 * buckets are that process's own.
 */
export class RateLimitStore extends Context.Service<
  RateLimitStore,
  {
    /** Takes portions (`takePortion`), each bucket's in one atomic step. Each bucket may occur once. */
    readonly takePortions: (
      requests: ReadonlyArray<BucketRequest>,
    ) => Effect.Effect<ReadonlyArray<TakenPortion>, StoreUnavailable>
  }
>()("@kiln/core/ports/RateLimitStore") {}
