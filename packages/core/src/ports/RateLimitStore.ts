import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"
import type { TakenPortion } from "../domain/rules.ts"
import type { PortionRequest } from "../domain/RateLimit.ts"

/** A request for a portion of one bucket. */
export interface BucketRequest extends PortionRequest {
  readonly bucket: string
}

/**
 * Token buckets that all processes of an installation share. Optional: without it, rates of providers and kinds are refused, and the
 * HTTP service limits requests by buckets of its own process.
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
