import * as Schema from "effect/Schema"
import type { BlobUnavailable, StoreUnavailable } from "./PortErrors.ts"

/** The lineage entries in the blob store lie below this; no sweep looks for orphans here. */
export const lineageRoot = "lineage"

/** More entries than this are never in a blob store at the same time, so none that is still there is forgotten. */
const maxEntries = 1_000
/** Further gaps are merged with their neighbors: a longer gap protects more. */
const maxGaps = 500
/** Gaps this close are kept as one, milliseconds: a rolling deployment leaves one gap, not one for each process. */
const mergeGapsWithinMs = 3_600_000

/** From, to: ids made in between, inclusive, Unix milliseconds. */
export type LineageGap = readonly [from: number, to: number]

/**
 * What a store remembers about the blob store it works with. Each start, and every few minutes each running installation,
 * adds an entry to the store and then to the blob store. A copy of the store that was made earlier does not know the newer
 * entries, so it can tell that it is behind.
 */
export interface BlobLineage {
  /** Of the newest entry; 0 before the first. */
  readonly generation: number
  /** Every entry that may still be in the blob store, oldest first. */
  readonly entries: ReadonlyArray<string>
  /** Store time of the newest entry, Unix milliseconds: a copy of this store was made later than this. */
  readonly seenAt: number
  /**
   * Times the store cannot vouch for: another copy of it may have accepted jobs then. A blob whose id is from a gap is
   * never removed because its record is missing.
   */
  readonly gaps: ReadonlyArray<LineageGap>
}

export const emptyLineage: BlobLineage = { generation: 0, entries: [], seenAt: 0, gaps: [] }

/** The blob store has entries that the store does not know: the store is an older copy, or another copy is in use. */
export class StoreBehindBlobs extends Schema.TaggedError<StoreBehindBlobs>()("StoreBehindBlobs", {
  /** The newest generation that the store knows. */
  generation: Schema.Number,
  /** The entries in the blob store that it does not know. */
  entries: Schema.Array(Schema.String),
}) {
  override get message(): string {
    return (
      `the database knows generation ${this.generation} of these blobs, and not ${this.entries.join(", ")}: it is an older copy, ` +
      "or another copy of it uses the same blobs. Nothing is removed until this is settled: stop the process that uses the " +
      "wrong database, or run kiln blobs adopt on the database to go on with"
    )
  }
}

/** Everything that looking at a lineage may fail with. */
export type LineageFailure = StoreBehindBlobs | StoreUnavailable | BlobUnavailable

/** The key of an entry in the blob store. */
export const lineageKey = (entry: string): string => `${lineageRoot}/${entry}`

/** The entry whose key this is; `undefined` for any other key. */
export const entryOfKey = (key: string): string | undefined =>
  /^lineage\/[0-9]{10}\/[0-9a-z]+$/.test(key) ? key.slice(lineageRoot.length + 1) : undefined

/** Returns the generation an entry says, or 0 where it says none. */
const generationOf = (entry: string): number => Number(/^[0-9]+/.exec(entry)?.[0] ?? 0)

const append = (lineage: BlobLineage, nonce: string, now: number): BlobLineage => {
  const generation = lineage.generation + 1
  const entry = `${String(generation).padStart(10, "0")}/${nonce}`
  return {
    generation,
    entries: [...lineage.entries, entry].slice(-maxEntries),
    seenAt: Math.max(lineage.seenAt, now),
    gaps: lineage.gaps,
  }
}

/** Adds a gap behind all others. Neighbors are merged, the closest ones first where there are too many. */
const withGap = (gaps: ReadonlyArray<LineageGap>, [from, to]: LineageGap): ReadonlyArray<LineageGap> => {
  const last = gaps.at(-1)
  if (last !== undefined && from - last[1] <= mergeGapsWithinMs)
    return [...gaps.slice(0, -1), [Math.min(last[0], from), Math.max(last[1], to)]]
  const added: ReadonlyArray<LineageGap> = [...gaps, [from, Math.max(from, to)]]
  const [first, second, ...rest] = added
  return added.length <= maxGaps || first === undefined || second === undefined
    ? added
    : [[first[0], second[1]], ...rest]
}

/**
 * The lineage after a start at `now`. The store may be a copy that was made any time after `seenAt`, and another copy may
 * have been in use until now, so the time in between becomes a gap.
 */
export const startLineage = (lineage: BlobLineage, nonce: string, now: number): BlobLineage => ({
  ...append(lineage, nonce, now),
  gaps: withGap(lineage.gaps, [lineage.seenAt, Math.max(lineage.seenAt, now)]),
})

/** The lineage after another entry of an installation that has been running since its last one. */
export const continueLineage = append

/**
 * The lineage after an operator has said that this store is the one to go on with, whatever other copies wrote. Since when
 * they wrote is not known, so everything up to now becomes one gap.
 */
export const adoptLineage = (
  lineage: BlobLineage,
  others: ReadonlyArray<string>,
  nonce: string,
  now: number,
): BlobLineage => {
  const generation = Math.max(lineage.generation, ...others.map(generationOf))
  const known = { ...lineage, generation, entries: [...lineage.entries, ...others] }
  const adopted = append(known, nonce, now)
  return { ...adopted, gaps: [[0, adopted.seenAt]] }
}

/** The entries of a blob store that the store does not know. */
export const unknownEntries = (lineage: BlobLineage, found: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Set(lineage.entries)
  return found.filter((entry) => !known.has(entry))
}

/** Entries that may be removed from the blob store, because a newer one that is there says the same. */
export const staleEntries = (lineage: BlobLineage, found: ReadonlyArray<string>): ReadonlyArray<string> => {
  const newest = lineage.entries.at(-1)
  if (newest === undefined || !found.includes(newest)) return []
  const known = new Set(lineage.entries)
  return found.filter((entry) => entry !== newest && known.has(entry))
}

/**
 * Whether a blob without a record may be removed. Only where the store is known to have been in use when its owner was
 * made, and not before the grace has passed. The grace is also how far the clocks of machines may be apart: ids are made by
 * them, everything else here is store time.
 */
export const vouchesForAbsence = (
  lineage: BlobLineage,
  id: {
    /** When the owner's id was made, Unix milliseconds. */
    readonly madeAt: number
    /** The same of the store's newest record; `undefined` where it has none. */
    readonly newestAt: number | undefined
    readonly graceMs: number
  },
): boolean => {
  const { graceMs, madeAt, newestAt } = id
  if (newestAt === undefined || madeAt > newestAt || madeAt + graceMs > lineage.seenAt) return false
  return lineage.gaps.every(([from, to]) => madeAt < from - graceMs || madeAt > to + graceMs)
}

const Document = Schema.fromJsonString(
  Schema.Struct({
    generation: Schema.Number,
    entries: Schema.Array(Schema.String),
    seenAt: Schema.Number,
    gaps: Schema.Array(Schema.Tuple([Schema.Number, Schema.Number])),
  }),
)

/** One line of JSON, as stores keep it. */
export const encodeLineage: (lineage: BlobLineage) => string = Schema.encodeSync(Document)

/** Reads what `encodeLineage` wrote; `null` is the lineage of a store that has none yet. Throws for anything else. */
export const decodeLineage = (document: string | null): BlobLineage =>
  document === null ? emptyLineage : Schema.decodeUnknownSync(Document)(document)
