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

/** A store's lineage as it is now, and what it was read from. */
export interface ReadLineage extends StoredLineage {
  readonly lineage: BlobLineage
}

/** A record that cannot be read is a store that cannot be trusted with blobs: nothing is removed until it is repaired. */
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
 * Fails with `StoreBehindBlobs` where the blob store has an entry that the store does not know. Lists before it reads: every
 * entry is in its store first, so one of this store's is never taken for another's.
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

/** Writes an entry to the blob store, and then removes the ones that it replaces. */
export const publishNewest = Effect.fnUntraced(function* (lineage: BlobLineage) {
  const newest = lineage.entries.at(-1)
  if (newest === undefined) return
  const blobs = yield* BlobStore
  const content = new TextEncoder().encode(newest)
  yield* blobs
    .put(lineageKey(newest), Stream.succeed(content), { maxBytes: content.length })
    .pipe(Effect.catchTag("BlobTooLarge", (cause) => Effect.fail(new BlobUnavailable({ operation: "put", cause }))))
  const stale = staleEntries(lineage, yield* listEntries)
  yield* Effect.forEach(stale, (entry) => blobs.remove(lineageKey(entry)), { discard: true })
})

/** Writes the store's next lineage. Returns `undefined` where another process was first: read again, and decide again. */
const writeNext = Effect.fnUntraced(function* (
  { lineage, now, version }: ReadLineage,
  next: (lineage: BlobLineage, nonce: string, now: number) => BlobLineage,
) {
  // A UUIDv7: no two processes make the same, and an operator who sees it can be told when it was made.
  const nonce = idBody((yield* IdGenerator).next("req"))
  const written = next(lineage, nonce, now)
  return (yield* (yield* JobStore).writeLineage(version, encodeLineage(written))) ? written : undefined
})

/**
 * Adds an entry to the store, whatever is in the blob store, and then to the blob store. Returns the lineage as written.
 */
const addEntry = Effect.fnUntraced(function* (next: typeof startLineage) {
  while (true) {
    const written = yield* writeNext(yield* readLineage, next)
    if (written !== undefined) return written
    yield* Effect.yieldNow
  }
})

/**
 * Starts work on a blob store: fails where the store is behind it, and otherwise notes the start in both. Two copies of a
 * store that start at the same moment both write, and then look again: the later one to look sees the other.
 */
export const joinBlobs = Effect.gen(function* () {
  yield* requireCurrentStore
  const written = yield* addEntry(startLineage)
  // A full or read-only blob store does not keep the rest from starting; the entry is published once it can be.
  yield* publishNewest(written).pipe(
    Effect.catchTag("BlobUnavailable", ({ cause }) =>
      Effect.logWarning("could not record this start in the blob store; trying again later", cause),
    ),
  )
  yield* requireCurrentStore
  return written
})

/** Adds an entry for an installation that goes on working. It also tells another copy's processes that this one is in use. */
export const continueBlobs = Effect.gen(function* () {
  const written = yield* addEntry(continueLineage)
  yield* publishNewest(written)
  return written
})

/** What `adoptBlobs` has acknowledged. */
export interface Adoption {
  /** The store's generation from now on. */
  readonly generation: number
  /** The entries of other copies that it knows from now on. */
  readonly entries: ReadonlyArray<string>
}

/**
 * Declares this store to be the one that goes on with these blobs. Its running processes go on by themselves; those of other
 * copies remove nothing more. Blobs from before are never removed because their record is missing.
 */
export const adoptBlobs = Effect.gen(function* () {
  const entries = yield* listEntries
  const { lineage } = yield* readLineage
  const others = unknownEntries(lineage, entries).toSorted()
  if (others.length === 0) return { generation: lineage.generation, entries: others } satisfies Adoption
  const written = yield* addEntry((current, nonce, now) => adoptLineage(current, others, nonce, now))
  yield* publishNewest(written)
  return { generation: written.generation, entries: others } satisfies Adoption
})
