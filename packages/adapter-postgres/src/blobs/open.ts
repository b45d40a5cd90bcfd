import { createHash } from "node:crypto"
import { BlobCorrupt, BlobNotFound, BlobUnavailable, type StoreUnavailable } from "@kiln/core/domain"
import {
  type BlobInfo,
  type BlobRange,
  type BlobSpan,
  blobSpanOf,
  type BlobStore,
  requireBlobKey,
  requireBlobRange,
} from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Database } from "../connection/Database.ts"
import { isCorrupt } from "../connection/postgresErrors.ts"
import { type Given, query, statement } from "../Statement.ts"
import { reporting } from "./reporting.ts"

/** Length of a piece that readers get. A long chunk would be one large write to a slow socket. */
const PIECE_BYTES = 64 * 1024

const blobByKey = statement((given: Given<{ key: string }>) =>
  query.selectFrom("blobs").select(["id", "bytes", "sha256"]).where("key", "=", given.key),
)

/** No row: the blob is gone. Without content: the chunk that has this byte is missing. */
const chunkAt = statement((given: Given<{ id: number; at: number }>) =>
  query
    .selectFrom("blobs")
    .leftJoinLateral(
      (from) =>
        from
          .selectFrom("blob_chunks")
          .select(["position", "content"])
          .whereRef("blob_id", "=", "blobs.id")
          .where("position", "<=", given.at)
          .orderBy("position", "desc")
          .limit(1)
          .as("chunk"),
      (on) => on.onTrue(),
    )
    .select(["chunk.position", "chunk.content"])
    .where("blobs.id", "=", given.id),
)

/** Opens a blob. Its chunks are read one by one with its content, so a blob that is never read costs one statement. */
export const open = (db: Database): BlobStore["Service"]["open"] =>
  Effect.fnUntraced(function* (key: string, range?: BlobRange) {
    yield* requireBlobKey(key)
    yield* requireBlobRange(range)
    const row = yield* reading(
      key,
      db.read("BlobStore.open", (session) => session.get(blobByKey, { key })),
    )
    if (row === undefined) return yield* Effect.fail(new BlobNotFound({ key }))
    const { bytes, id, sha256 } = row
    if (bytes === null || sha256 === null) return yield* Effect.fail(new BlobCorrupt({ key }))
    const info = { bytes, sha256 }
    return { ...info, content: readSpan(db, { key, id, info }, blobSpanOf(bytes, range)) }
  })

interface StoredBlob {
  readonly key: string
  readonly id: number
  readonly info: BlobInfo
}

const emptySha256 = createHash("sha256").digest("hex")

const readSpan = (
  db: Database,
  { id, info, key }: StoredBlob,
  { from, to, whole }: BlobSpan,
): Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt> => {
  if (from === to) {
    const damaged = info.bytes === 0 && info.sha256 !== emptySha256
    return damaged ? Stream.fail(new BlobCorrupt({ key })) : Stream.empty
  }
  return Stream.suspend(() => {
    const hash = whole ? createHash("sha256") : undefined
    return Stream.paginate(from, (at) =>
      Effect.gen(function* () {
        const rest = yield* readChunk(db, { id, key }, at)
        const chunk = rest.subarray(0, to - at)
        const next = at + chunk.length
        hash?.update(chunk)
        // Checked before the last piece is emitted: a reader that counts bytes stops there.
        const damaged =
          rest.length > info.bytes - at || (next === to && hash !== undefined && hash.digest("hex") !== info.sha256)
        if (damaged) return yield* Effect.fail(new BlobCorrupt({ key }))
        return [piecesOf(chunk), next === to ? Option.none() : Option.some(next)] as const
      }),
    )
  })
}

const piecesOf = (chunk: Uint8Array): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(chunk.length / PIECE_BYTES) }, (_, n) =>
    chunk.subarray(n * PIECE_BYTES, (n + 1) * PIECE_BYTES),
  )

/** Reads the chunk that contains byte `at`, from this byte on. */
const readChunk = Effect.fnUntraced(function* (
  db: Database,
  { id, key }: { readonly id: number; readonly key: string },
  at: number,
) {
  const row = yield* reading(
    key,
    db.read("BlobStore.open", (session) => session.get(chunkAt, { id, at })),
  )
  if (row === undefined)
    return yield* Effect.fail(
      new BlobUnavailable({ operation: "open", cause: new Error("the blob was removed while it was read") }),
    )
  const { content, position } = row
  if (content === null || position === null || position + content.length <= at)
    return yield* Effect.fail(new BlobCorrupt({ key }))
  return content.subarray(at - position)
})

/** A damaged page of the table is a damaged blob: others may be intact. */
const reading = <A>(
  key: string,
  read: Effect.Effect<A, StoreUnavailable>,
): Effect.Effect<A, BlobUnavailable | BlobCorrupt> =>
  reporting("open")(
    Effect.catchIf(
      read,
      ({ cause }) => isCorrupt(cause),
      () => Effect.fail(new BlobCorrupt({ key })),
    ),
  )
