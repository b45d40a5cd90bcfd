import { createHash } from "node:crypto"
import { sql } from "kysely"
import type { BlobTooLarge, StoreUnavailable } from "@kiln/core/domain"
import { type BlobInfo, type BlobStore, requireBlobKey, requireBlobLimit, pieceWriter } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { Database } from "../connection/Database.ts"
import { type Given, query, statement, storeTime } from "../Statement.ts"
import { BlobWriterGone, reporting } from "./reporting.ts"

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
