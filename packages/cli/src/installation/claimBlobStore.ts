import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Hex from "effect/encoding/Hex"
import { BlobUnavailable, type StoreUnavailable } from "@kiln/core/domain"
import { BlobStore, SecretStore } from "@kiln/core/ports"
import { foreignMarkers, installationSecret, markerOf, readMarkers } from "./markers.ts"

const idBytes = 16

/** The blob store has the marker of another installation than the records. */
export class ForeignBlobStore extends Schema.TaggedError<ForeignBlobStore>()("ForeignBlobStore", {
  installationId: Schema.String,
  /** Keys of the existing markers. */
  markers: Schema.Array(Schema.String),
}) {}

/** The installation id of the records in lower-case hex, generated once and copied along with them, and whether it is new. */
export const installation: Effect.Effect<
  { readonly id: string; readonly isNew: boolean },
  StoreUnavailable,
  SecretStore
> = Effect.gen(function* () {
  const secrets = yield* SecretStore
  const random = yield* SecureRandom.SecureRandom
  const candidate = yield* random.randomBytes(idBytes)
  const id = Hex.encode(yield* secrets.getOrCreate(installationSecret, candidate))
  return { id, isNew: id === Hex.encode(candidate) }
}).pipe(Effect.provide(SecureRandom.layerWebCrypto))

/** Marks a blob store as one of the installation with this id. */
export const writeMarker = (blobs: BlobStore["Service"], id: string): Effect.Effect<void, BlobUnavailable> => {
  const content = new TextEncoder().encode(id)
  return blobs
    .put(markerOf(id), Stream.succeed(content), { maxBytes: content.length })
    .pipe(Effect.catchTag("BlobTooLarge", (cause) => Effect.fail(new BlobUnavailable({ operation: "put", cause }))))
}

/**
 * Verifies that records and blobs belong together, and marks an unmarked blob store. Runs before any sweep, because a sweep
 * on another installation's blobs would treat all of them as orphans.
 */
export const claimBlobStore: Effect.Effect<
  void,
  StoreUnavailable | BlobUnavailable | ForeignBlobStore,
  SecretStore | BlobStore
> = Effect.gen(function* () {
  const { id, isNew } = yield* installation
  const blobs = yield* BlobStore
  const refuseForeign = (markers: ReadonlyArray<string>) => {
    const foreign = foreignMarkers(id, markers)
    return foreign.length === 0 ? Effect.void : new ForeignBlobStore({ installationId: id, markers: foreign })
  }
  const before = yield* readMarkers
  yield* refuseForeign(before)
  if (before.length > 0) return
  // This installation has marked a blob store before (unless another process is just starting): this is another one, or it was emptied.
  if (!isNew)
    yield* Effect.logError(
      "the blob store has no marker, although this installation has marked one before: if it is a shared directory, check that it is mounted; files that are stored elsewhere cannot be served",
    )
  // Processes that start concurrently write the same marker.
  yield* writeMarker(blobs, id)
  // Another installation may have found it empty at the same time.
  yield* refuseForeign(yield* readMarkers)
})
