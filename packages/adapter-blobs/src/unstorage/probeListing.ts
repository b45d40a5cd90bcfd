import { BlobUnavailable } from "@kiln/core/domain"
import { Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import { incompleteListing, itemsOf, writeShared } from "./Items.ts"
import type { UnstorageLike } from "./UnstorageLike.ts"

/** One more than a page of S3 and its like. */
const PROBE_ITEMS = 1_001
const AT_ONCE = 16
/** Says that the storage was probed: a store that was once found to list completely is not probed at each start. */
const PROBED = "~kiln-probed:1"
const CONTENT = Buffer.from("probe")

/**
 * Makes sure, once for each storage, that its driver lists more than one page: writes small items, lists them and removes
 * them. Fails with `BlobUnavailable` where some are not listed. Processes that start at the same time use keys of their own.
 */
export const probeListing = (storage: UnstorageLike): Effect.Effect<void, BlobUnavailable> => {
  const items = itemsOf(storage, "start")
  const probe = Effect.gen(function* () {
    const base = `~kiln-probe-${SecureRandom.uuidV4Unsafe()}`
    const keys = Array.from({ length: PROBE_ITEMS }, (_, n) => `${base}:item-${n}`)
    const attempt = (run: (key: string) => Promise<void>) =>
      Effect.forEach(
        keys,
        (key) =>
          Effect.tryPromise({
            try: () => run(key),
            catch: (cause) => new BlobUnavailable({ operation: "start", cause }),
          }),
        { concurrency: AT_ONCE, discard: true },
      )
    // Only the listing is of interest, so nothing is read back.
    yield* attempt((key) => storage.setItemRaw(key, CONTENT)).pipe(
      Effect.andThen(items.keys(base)),
      Effect.flatMap((listed) =>
        listed.length === PROBE_ITEMS
          ? Effect.void
          : Effect.fail(new BlobUnavailable({ operation: "start", cause: new Error(incompleteListing) })),
      ),
      Effect.ensuring(Effect.ignore(attempt((key) => storage.removeItem(key)))),
    )
    yield* writeShared(items, PROBED, CONTENT)
  })
  return Effect.flatMap(items.read(PROBED), (probed) => (probed === undefined ? probe : Effect.void))
}
