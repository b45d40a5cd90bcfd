import { BlobUnavailable } from "@kiln/core/domain"
import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { incompleteListing, itemsOf, writeShared } from "./Items.ts"
import type { UnstorageLike } from "./UnstorageLike.ts"

/** One more than a page of S3 and similar services. */
const PROBE_ITEMS = 1_001
const AT_ONCE = 16
/** Marks a storage that was found to list completely, so that it is not probed at every start. */
const PROBED = "~kiln-probed:1"
const CONTENT = Buffer.from("probe")

/**
 * Verifies, once for each storage, that its driver lists more than one page: writes small items, lists them and removes
 * them. Fails with `BlobUnavailable` if some are not listed. Processes that start concurrently use separate keys.
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
    // Only the listing is probed, so the items are not read back.
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
