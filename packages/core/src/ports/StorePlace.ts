import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"

/** The place of a store's records, by facts that a copy does not share. */
export interface PlaceFacts {
  /** Names the place in a message, without secrets: `/srv/kiln/kiln.db`. */
  readonly description: string
  /** The facts as text, which the store keeps. */
  readonly document: string
  /** Whether a kept document describes this place, although it may have been renamed since. */
  readonly isSame: (document: string) => boolean
}

/** The name of the secret that holds the place of the records. It is copied along with them, and then names another place. */
export const placeSecret = "place"

/** Tells where the records are. Only stores whose records can be copied without their knowledge have it. */
export class StorePlace extends Context.Service<
  StorePlace,
  {
    /** Returns `undefined` if the records may be used in any place. */
    readonly read: Effect.Effect<PlaceFacts | undefined, StoreUnavailable>
  }
>()("@kiln/core/ports/StorePlace") {}
