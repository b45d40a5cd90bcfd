import { Effect, Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { Hex } from "effect/encoding"
import { BlobUnavailable, type StoreUnavailable } from "@kiln/core/domain"
import { BlobStore, SecretStore } from "@kiln/core/ports"
import { foreignMarkers, installationSecret, markerOf, readMarkers } from "./markers.ts"

const idBytes = 16

/** The blob store carries the marker of another installation than the records. */
export class ForeignBlobStore extends Schema.TaggedError<ForeignBlobStore>()("ForeignBlobStore", {
  installationId: Schema.String,
  /** Keys of the markers that are there. */
  markers: Schema.Array(Schema.String),
}) {}

/** Which installation the records are: made once, lower-case hex, and copied along with them. */
const installationId: Effect.Effect<string, StoreUnavailable, SecretStore> = Effect.gen(function* () {
  const secrets = yield* SecretStore
  const random = yield* SecureRandom.SecureRandom
  return Hex.encode(yield* secrets.getOrCreate(installationSecret, yield* random.randomBytes(idBytes)))
}).pipe(Effect.provide(SecureRandom.layerWebCrypto))

/**
 * Makes sure that records and blobs belong together, and marks a blob store that nobody has marked. Whoever works with
 * another installation's blobs finds none of its own, and takes all that are there for orphans: this comes before any sweep.
 */
export const claimBlobStore: Effect.Effect<
  void,
  StoreUnavailable | BlobUnavailable | ForeignBlobStore,
  SecretStore | BlobStore
> = Effect.gen(function* () {
  const id = yield* installationId
  const blobs = yield* BlobStore
  const refuseForeign = (markers: ReadonlyArray<string>) => {
    const foreign = foreignMarkers(id, markers)
    return foreign.length === 0 ? Effect.void : new ForeignBlobStore({ installationId: id, markers: foreign })
  }
  const before = yield* readMarkers
  yield* refuseForeign(before)
  if (before.length > 0) return
  // Of several processes that start at once each writes the same.
  const mark = new TextEncoder().encode(id)
  yield* blobs
    .put(markerOf(id), Stream.succeed(mark), { maxBytes: mark.length })
    .pipe(Effect.catchTag("BlobTooLarge", (cause) => new BlobUnavailable({ operation: "put", cause })))
  // Another installation may have found it empty at the same moment.
  yield* refuseForeign(yield* readMarkers)
})
