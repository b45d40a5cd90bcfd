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

/** Which installation the records are, lower-case hex: made once, and copied along with them; and whether that was now. */
const installation: Effect.Effect<{ readonly id: string; readonly isNew: boolean }, StoreUnavailable, SecretStore> =
  Effect.gen(function* () {
    const secrets = yield* SecretStore
    const random = yield* SecureRandom.SecureRandom
    const candidate = yield* random.randomBytes(idBytes)
    const id = Hex.encode(yield* secrets.getOrCreate(installationSecret, candidate))
    return { id, isNew: id === Hex.encode(candidate) }
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
  const { id, isNew } = yield* installation
  const blobs = yield* BlobStore
  const refuseForeign = (markers: ReadonlyArray<string>) => {
    const foreign = foreignMarkers(id, markers)
    return foreign.length === 0 ? Effect.void : new ForeignBlobStore({ installationId: id, markers: foreign })
  }
  const before = yield* readMarkers
  yield* refuseForeign(before)
  if (before.length > 0) return
  // It had marked one, unless another process began it just now: so this is not the one, or it was emptied.
  if (!isNew)
    yield* Effect.logError(
      "the blob store carries no mark of this installation, which has marked one before: if it is a shared directory, check that it is mounted, for files that were stored elsewhere cannot be served from here",
    )
  // Of several processes that start at once each writes the same.
  const mark = new TextEncoder().encode(id)
  yield* blobs
    .put(markerOf(id), Stream.succeed(mark), { maxBytes: mark.length })
    .pipe(Effect.catchTag("BlobTooLarge", (cause) => new BlobUnavailable({ operation: "put", cause })))
  // Another installation may have found it empty at the same moment.
  yield* refuseForeign(yield* readMarkers)
})
