import type { Effect } from "effect"
import type { Engine, JobKind } from "@kiln/core/effect"
import type { Grant, KeyScope } from "@kiln/core/domain"
import type { Exchange } from "../server/Exchange.ts"
import type { Refusal } from "../server/Refusal.ts"
import type { RateLimitName } from "../wire/RateLimiter.ts"
import type { SigningKeyring } from "../wire/SignedUrls.ts"

/** What handlers work with. */
export interface HandlerContext {
  readonly engine: Engine["Service"]
  readonly keyring: SigningKeyring
  /** What absolute URLs begin with, without a slash at the end. */
  readonly publicUrl: () => string
  /** Key, scope and rate limit, in this order. */
  readonly admit: <S extends KeyScope>(
    exchange: Exchange,
    scope: S,
    limit: Exclude<RateLimitName, "authentication">,
  ) => Effect.Effect<Grant<S>, Refusal>
  /** Whether the key is still good, asked once the body has arrived. */
  readonly confirm: (exchange: Exchange) => Effect.Effect<void, Refusal>
}

/** A kind of the engine by its name. The service cannot offer what the engine does not know. */
export const kindNamed = (engine: Engine["Service"], name: string): JobKind => {
  const kind = engine.kinds.find((candidate) => candidate.name === name)
  if (kind === undefined) throw new Error(`the engine has no job kind "${name}"`)
  return kind
}
