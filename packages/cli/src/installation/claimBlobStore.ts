import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Hex from "effect/encoding/Hex"
import { BlobUnavailable, type StoreUnavailable } from "@kiln/core/domain"
import { BlobStore, JobStore, SecretStore, type StoredLineage, type StoreInspection } from "@kiln/core/ports"
import { decodeLineage, lineageRoot } from "@kiln/core/worker"
import { foreignMarkers, installationSecret, markerOf, readMarkers } from "./markers.ts"

const idBytes = 16

/** The blob store has the marker of another installation than the records. */
export class ForeignBlobStore extends Schema.TaggedError<ForeignBlobStore>()("ForeignBlobStore", {
  installationId: Schema.String,
  /** Keys of the existing markers. */
  markers: Schema.Array(Schema.String),
}) {}

/** The records were used with a blob store before, and this one has no trace of that. */
export class UnmarkedBlobStore extends Schema.TaggedError<UnmarkedBlobStore>()("UnmarkedBlobStore", {
  installationId: Schema.String,
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

/** Whether the records were used with a blob store before. A record that cannot be read is reported by the next step. */
const hasLineage = ({ document }: StoredLineage): boolean => {
  try {
    return decodeLineage(document).generation > 0
  } catch {
    return false
  }
}

/** Whether a copy of the records has used the blob store. */
const hasEntries = Effect.flatMap(BlobStore, (blobs) =>
  Effect.map(Stream.runCollect(Stream.take(blobs.list(lineageRoot), 1)), (keys) => keys.length > 0),
)

/** Compares a blob store with the records, and changes nothing. */
export const compareBlobStore = Effect.fnUntraced(function* (
  records: Pick<StoreInspection, "findSecret" | "readLineage">,
) {
  const secret = yield* records.findSecret(installationSecret)
  const id = secret === undefined ? "" : Hex.encode(secret)
  const markers = yield* readMarkers
  const foreign = foreignMarkers(id, markers)
  if (foreign.length > 0) return new ForeignBlobStore({ installationId: id, markers: foreign })
  if (markers.length > 0) return "own" as const
  const isOther = secret !== undefined && hasLineage(yield* records.readLineage) && !(yield* hasEntries)
  return isOther ? new UnmarkedBlobStore({ installationId: id }) : ("unmarked" as const)
})

const claim = (ifUnmarked: "refuse" | "mark") =>
  Effect.gen(function* () {
    // Read before the markers: a process that joins a blob store has marked it.
    const wasUsed = hasLineage(yield* (yield* JobStore).readLineage)
    const { id, isNew } = yield* installation
    const blobs = yield* BlobStore
    const refuseForeign = (markers: ReadonlyArray<string>) => {
      const foreign = foreignMarkers(id, markers)
      return foreign.length === 0 ? Effect.void : new ForeignBlobStore({ installationId: id, markers: foreign })
    }
    const before = yield* readMarkers
    yield* refuseForeign(before)
    if (before.length > 0) return
    // This installation has marked a blob store, and joined it. This is another one, or it was emptied.
    if (ifUnmarked === "refuse" && !isNew && wasUsed && !(yield* hasEntries))
      return yield* new UnmarkedBlobStore({ installationId: id })
    // Processes that start concurrently write the same marker.
    yield* writeMarker(blobs, id)
    // Another installation may have found it empty at the same time.
    yield* refuseForeign(yield* readMarkers)
  })

/**
 * Verifies that records and blobs belong together, and marks an unmarked blob store if these records were not used with one before.
 * Runs before any sweep, because a sweep on another installation's blobs would treat all of them as orphans.
 */
export const claimBlobStore: Effect.Effect<
  void,
  StoreUnavailable | BlobUnavailable | ForeignBlobStore | UnmarkedBlobStore,
  SecretStore | BlobStore | JobStore
> = claim("refuse")

/** Like `claimBlobStore`, for an operator who says that records and blobs belong together: marks any unmarked blob store. */
export const claimAnyBlobStore: Effect.Effect<
  void,
  StoreUnavailable | BlobUnavailable | ForeignBlobStore,
  SecretStore | BlobStore | JobStore
> = Effect.catchTag(claim("mark"), "UnmarkedBlobStore", (error) => Effect.die(error))
