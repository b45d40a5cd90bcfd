import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { sql } from "kysely"
import { BlobCorrupt, BlobNotFound, type BlobTooLarge, BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import {
  type BlobInfo,
  type BlobRange,
  type BlobSpan,
  blobSpanOf,
  type BlobStore,
  pieceWriter,
  requireBlobKey,
  requireBlobLimit,
  requireBlobRange,
} from "@kiln/core/ports"
import { type Given, query, statement, storeTime } from "../Statement.ts"
import type { Database } from "../connection/Database.ts"
import { isCorrupt } from "../connection/postgresErrors.ts"

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

/** The length of a stored chunk. A put holds one in memory. */
const CHUNK_BYTES = 256 * 1024

/** Stores a blob of one chunk with one statement. Writes a longer one chunk by chunk as it arrives, and names it at the end. */
export const put = (db: Database): BlobStore["Service"]["put"] =>
  Effect.fnUntraced(function* (key, content, { maxBytes }) {
    yield* requireBlobKey(key)
    yield* requireBlobLimit(maxBytes)
    return yield* reporting("put")(
      Effect.acquireUseRelease(
        Effect.sync(() => newDraft(key)),
        (draft) => write(db, draft, content, maxBytes),
        (draft, exit) => (Exit.isSuccess(exit) ? Effect.void : discard(db, draft)),
      ),
    )
  })

/** A blob that is being written. */
interface Draft {
  readonly key: string
  /** The row, once a chunk was written. */
  id: number | undefined
  /** Bytes in written chunks. */
  written: number
  /** True once the blob may be readable under its key. */
  named: boolean
}

const newDraft = (key: string): Draft => ({ key, id: undefined, written: 0, named: false })

const write = Effect.fnUntraced(function* <E>(
  db: Database,
  draft: Draft,
  content: Stream.Stream<Uint8Array, E>,
  maxBytes: number,
): Effect.fn.Return<BlobInfo, E | BlobTooLarge | StoreUnavailable | BlobWriterGone> {
  const hash = createHash("sha256")
  const writeOne = (piece: Uint8Array) => writeChunk(db, draft, piece)
  const writer = pieceWriter({ maxBytes, pieceBytes: CHUNK_BYTES, hash, write: writeOne })
  yield* Stream.runForEach(content, writer.append)
  const { bytes, last } = writer.end()
  const info = { bytes, sha256: hash.digest("hex") }
  // Not interruptible: an interruption takes effect afterwards, and then removes the blob again.
  yield* Effect.uninterruptible(name(db, draft, info, last))
  return info
})

const bytea = (content: Given<{ content: Uint8Array }>["content"]) => sql<Uint8Array>`${content}::bytea`

const begin = statement(() => query.insertInto("blobs").values({ begun_at: storeTime }).returning("id"))

/** The same chunk may be sent again after a lost answer. Changes nothing if the unfinished blob was removed. */
const insertChunk = statement((given: Given<{ id: number; position: number; content: Uint8Array }>) =>
  query
    .insertInto("blob_chunks")
    .columns(["blob_id", "position", "content"])
    .expression((from) =>
      from
        .selectFrom("blobs")
        .select(["id", sql<number>`${given.position}::bigint`.as("position"), bytea(given.content).as("content")])
        .where("id", "=", given.id)
        .where("key", "is", null),
    )
    .onConflict((conflict) => conflict.columns(["blob_id", "position"]).doUpdateSet({ content: bytea(given.content) })),
)

const writeChunk = Effect.fnUntraced(function* (db: Database, draft: Draft, content: Uint8Array) {
  // Not interruptible, because a row whose id is not known could not be removed.
  const id = draft.id ?? (yield* Effect.uninterruptible(beginBlob(db, draft)))
  const parameters = { id, position: draft.written, content }
  const inserted = yield* db.read("BlobStore.put", (session) => session.run(insertChunk, parameters))
  if (inserted !== 1) return yield* Effect.fail(new BlobWriterGone())
  draft.written += content.length
})

const beginBlob = (db: Database, draft: Draft) =>
  Effect.map(
    db.read("BlobStore.put", (session) => session.get(begin, {})),
    (row) => {
      if (row === undefined) throw new TypeError("an INSERT returned no row")
      draft.id = row.id
      return row.id
    },
  )

type WholeBlob = { key: string; bytes: number; sha256: string; content: Uint8Array }

/** Returns no row if the key exists. */
const insertWhole = statement((given: Given<WholeBlob>) =>
  query
    .with("stored", (from) =>
      from
        .insertInto("blobs")
        .values({ key: given.key, bytes: given.bytes, sha256: given.sha256, begun_at: storeTime })
        .onConflict((conflict) => conflict.column("key").doNothing())
        .returning("id"),
    )
    .with("chunk", (from) =>
      from
        .insertInto("blob_chunks")
        .columns(["blob_id", "position", "content"])
        .expression((rows) =>
          rows
            .selectFrom("stored")
            .select(["id", sql<number>`0`.as("position"), bytea(given.content).as("content")])
            .where(sql<boolean>`length(${bytea(given.content)}) > 0`),
        ),
    )
    .selectFrom("stored")
    .select("id"),
)

const lockKey = statement((given: Given<{ key: string }>) =>
  query.selectNoFrom(sql`pg_advisory_xact_lock(hashtextextended(${given.key}::text, 0))`.as("locked")),
)

const removeKey = statement((given: Given<{ key: string }>) => query.deleteFrom("blobs").where("key", "=", given.key))

const nameBlob = statement((given: Given<{ id: number; key: string; bytes: number; sha256: string }>) =>
  query
    .updateTable("blobs")
    .set({ key: given.key, bytes: given.bytes, sha256: given.sha256 })
    .where("id", "=", given.id)
    .where("key", "is", null),
)

const name = Effect.fnUntraced(function* (db: Database, draft: Draft, info: BlobInfo, last: Uint8Array) {
  const { key } = draft
  draft.named = true
  if (draft.id === undefined) {
    const whole = { key, ...info, content: last }
    if (yield* db.read("BlobStore.put", (session) => session.any(insertWhole, whole))) return
  }
  if (last.length > 0) yield* writeChunk(db, draft, last)
  const id = draft.id ?? (yield* beginBlob(db, draft))
  // A put that is repeated replaces what the first one stored. One at a time, because of the unique key.
  const named = yield* db.write("BlobStore.put", async (tx) => {
    const [, , count] = await Promise.all([
      tx.run(lockKey, { key }),
      tx.run(removeKey, { key }),
      tx.run(nameBlob, { id, key, ...info }),
    ])
    return count === 1
  })
  if (!named) return yield* Effect.fail(new BlobWriterGone())
})

const removeById = statement((given: Given<{ id: number }>) => query.deleteFrom("blobs").where("id", "=", given.id))

/** Deletes what a failed put has written, best effort: the sweep finds the rest. */
const discard = (db: Database, { id, key, named }: Draft): Effect.Effect<void> =>
  Effect.ignore(
    db.read("BlobStore.put", async (session) => {
      if (id !== undefined) await session.run(removeById, { id })
      else if (named) await session.run(removeKey, { key })
    }),
  )
