import type * as Clock from "effect/Clock"
import type { Engine } from "@kiln/core/effect"
import type { Grant, KeyLimits } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import type { Exchange, Ready } from "../server/Exchange.ts"
import type { JobWaits } from "../server/JobWaits.ts"
import type { SigningKeyring } from "../wire/SignedUrls.ts"
import type { OfferedKinds } from "./offerKinds.ts"

/** The context passed to handlers. */
export interface HandlerContext {
  readonly engine: Engine["Service"]
  readonly offers: OfferedKinds
  readonly keyring: SigningKeyring
  /** The prefix of absolute URLs, without a trailing slash. */
  readonly publicUrl: () => string
  /** Whether a live job is refused if no worker has served its type live within the queue limit. */
  readonly requireLiveWorker: boolean
  /** Makes the URL that a file is redirected to; files are sent when undefined. */
  readonly linkBlob: BlobStore["Service"]["link"]
  /** Checks key, scope and rate limit, in this order. */
  readonly admit: <S extends string>(
    exchange: Exchange,
    scope: S,
    limit: keyof KeyLimits,
    clock: Clock.Clock,
  ) => Ready<Grant<S>>
  /** Lets requests wait for the end of a job. */
  readonly waits: JobWaits
  /** Checks that the key is still valid, after the body has arrived or a wait is over. */
  readonly confirm: (exchange: Exchange, clock: Clock.Clock) => Ready<object>
  /** Milliseconds after which a stream confirms its key again. */
  readonly confirmEveryMs: number
}
