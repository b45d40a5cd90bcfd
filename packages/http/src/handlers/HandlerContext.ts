import type * as Effect from "effect/Effect"
import type { Engine } from "@kiln/core/effect"
import type { Grant, KeyScope } from "@kiln/core/domain"
import type { Exchange } from "../server/Exchange.ts"
import type { Refusal } from "../server/Refusal.ts"
import type { RateLimitName } from "../wire/RateLimiter.ts"
import type { SigningKeyring } from "../wire/SignedUrls.ts"
import type { OfferedKinds } from "./offerKinds.ts"

/** What handlers work with. */
export interface HandlerContext {
  readonly engine: Engine["Service"]
  readonly offers: OfferedKinds
  readonly keyring: SigningKeyring
  /** What absolute URLs begin with, without a slash at the end. */
  readonly publicUrl: () => string
  /** Whether a live job is refused when no worker has served its type live within the queue limit. */
  readonly requireLiveWorker: boolean
  /** Key, scope and rate limit, in this order. */
  readonly admit: <S extends KeyScope>(
    exchange: Exchange,
    scope: S,
    limit: Exclude<RateLimitName, "authentication" | "pages">,
  ) => Effect.Effect<Grant<S>, Refusal>
  /** Whether the key is still good, asked once the body has arrived. */
  readonly confirm: (exchange: Exchange) => Effect.Effect<void, Refusal>
}
