import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import {
  type BlobLineage,
  continueLineage,
  decodeLineage,
  encodeLineage,
  entryOfKey,
  adoptLineage,
  lineageKey,
  lineageRoot,
  staleEntries,
  startLineage,
  StoreBehindBlobs,
  unknownEntries,
} from "../domain/BlobLineage.ts"
import { BlobUnavailable, idBody, StoreUnavailable } from "../domain/index.ts"
import { BlobStore, IdGenerator, JobStore, type StoredLineage } from "../ports/index.ts"

/** A store's current lineage, and the record from which it was read. */
export interface ReadLineage extends StoredLineage {
  readonly lineage: BlobLineage
}

/** A store whose lineage cannot be read must not remove blobs: every removal fails until the record is repaired. */
const decoded = (stored: StoredLineage): Effect.Effect<ReadLineage, StoreUnavailable> =>
  Effect.try({
    try: () => ({ ...stored, lineage: decodeLineage(stored.document) }),
    catch: () =>
      new StoreUnavailable({
        operation: "readLineage",
        cause: new Error(
          "the record of the blob store's generations cannot be read; restore the database from a backup",
        ),
      }),
  })

const readLineage = Effect.flatMap(JobStore, (store) => Effect.flatMap(store.readLineage, decoded))

/** The entries that the blob store holds. */
export const listEntries = Effect.flatMap(BlobStore, (blobs) =>
  Effect.map(Stream.runCollect(blobs.list(lineageRoot)), (keys) => keys.flatMap((key) => entryOfKey(key) ?? [])),
)

/**
 * Fails with `StoreBehindBlobs` if the blob store has an entry that the store does not know. Lists the blob store before it reads
 * the store: every entry is written to the store first, so the store knows all of its own.
 */
export const requireCurrent = Effect.fnUntraced(function* (store: Pick<JobStore["Service"], "readLineage">) {
  const entries = yield* listEntries
  const read = yield* decoded(yield* store.readLineage)
  const unknown = unknownEntries(read.lineage, entries)
  if (unknown.length > 0)
    return yield* new StoreBehindBlobs({ generation: read.lineage.generation, entries: unknown.toSorted() })
  return { ...read, entries }
})

export const requireCurrentStore = Effect.flatMap(JobStore, requireCurrent)

/**
 * Writes an entry to the blob store, and then removes the ones that it replaces. One that cannot be removed is left to the next
 * call: this store knows it, so it is in nobody's way, and must not keep the process from all other removals.
 */
export const publishNewest = Effect.fnUntraced(function* (lineage: BlobLineage) {
  const newest = lineage.entries.at(-1)
  if (newest === undefined) return
  const blobs = yield* BlobStore
  const content = new TextEncoder().encode(newest)
  yield* blobs
    .put(lineageKey(newest), Stream.succeed(content), { maxBytes: content.length })
    .pipe(Effect.catchTag("BlobTooLarge", (cause) => Effect.fail(new BlobUnavailable({ operation: "put", cause }))))
  const stale = staleEntries(lineage, yield* listEntries)
  yield* Effect.forEach(
    stale,
    (entry) =>
      Effect.catchTag(blobs.remove(lineageKey(entry)), "BlobUnavailable", ({ cause }) =>
        Effect.logWarning("could not remove an old entry of this store from the blob store; trying again later", cause),
      ),
    { discard: true },
  )
})

/** Writes the store's next lineage. Returns `undefined` if another process wrote first; then read again and retry. */
const writeNext = Effect.fnUntraced(function* (
  { lineage, now, version }: ReadLineage,
  next: (lineage: BlobLineage, nonce: string, now: number) => BlobLineage,
) {
  // A UUIDv7, so that it is unique and shows when it was created.
  const nonce = idBody((yield* IdGenerator).next("req"))
  const written = next(lineage, nonce, now)
  return (yield* (yield* JobStore).writeLineage(version, encodeLineage(written))) ? written : undefined
})

/** Adds an entry to the store, and retries until no other process interferes. Returns the lineage as written. */
const addEntry = Effect.fnUntraced(function* (next: typeof startLineage) {
  while (true) {
    const written = yield* writeNext(yield* readLineage, next)
    if (written !== undefined) return written
    yield* Effect.yieldNow
  }
})

/**
 * Joins a blob store: fails if the store is behind it, and otherwise records the start in both. If two copies of a store start at
 * the same moment, both write and then check again, so the later check notices the other copy.
 */
export const joinBlobs = Effect.gen(function* () {
  const { entries, lineage } = yield* requireCurrentStore
  const newest = lineage.entries.at(-1)
  if (newest !== undefined && entries.length > 0 && !entries.includes(newest))
    yield* Effect.logWarning(
      "the blob store lacks the newest entry of this database: if it is an older copy of the blob store, files written since are missing; check KILN_BLOBS",
    )
  const written = yield* addEntry(startLineage)
  // A full or read-only blob store must not prevent the start; the entry is published later.
  yield* publishNewest(written).pipe(
    Effect.catchTag("BlobUnavailable", ({ cause }) =>
      Effect.logWarning("could not record this start in the blob store; trying again later", cause),
    ),
  )
  yield* requireCurrentStore
  return written
})

/** Adds an entry for a running installation. The processes of another copy thereby notice that this one is in use. */
export const continueBlobs = Effect.gen(function* () {
  const written = yield* addEntry(continueLineage)
  yield* publishNewest(written)
  return written
})

/** The store's generation, and the entries in the blob store that it does not know, oldest first. */
export const foreignEntries = Effect.gen(function* () {
  const found = yield* listEntries
  const { lineage } = yield* readLineage
  return { generation: lineage.generation, entries: unknownEntries(lineage, found).toSorted() }
})

/**
 * Makes this store the one that continues with these blobs. Its running processes continue automatically; those of other copies
 * stop removing blobs. A blob from before is never removed because its record is missing, or because of its token. A store that was
 * never used with blobs, and still is not, needs none of that.
 */
export const adoptBlobs = Effect.gen(function* () {
  const { entries } = yield* foreignEntries
  if (entries.length === 0 && (yield* readLineage).document === null) return
  const written = yield* addEntry((current, nonce, now) => adoptLineage(current, entries, nonce, now))
  yield* publishNewest(written)
})
