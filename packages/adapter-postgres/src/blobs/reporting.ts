import { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import * as Effect from "effect/Effect"

/** An unfinished blob was removed while it was written: by a sweep, or by hand. */
export class BlobWriterGone extends Error {
  readonly _tag = "BlobWriterGone"
  constructor() {
    super("the unfinished blob was removed while it was being written: an upload may take at most a day")
  }
}

/** Reports failures of the database as failures of the blob store. */
export const reporting =
  (operation: string) =>
  <A, E, R>(
    effect: Effect.Effect<A, E, R>,
  ): Effect.Effect<A, Exclude<E, StoreUnavailable | BlobWriterGone> | BlobUnavailable, R> =>
    Effect.mapError(effect, (error) =>
      error instanceof StoreUnavailable
        ? new BlobUnavailable({ operation, cause: error.cause })
        : error instanceof BlobWriterGone
          ? new BlobUnavailable({ operation, cause: error })
          : (error as Exclude<E, StoreUnavailable | BlobWriterGone>),
    )
