import * as Data from "effect/Data"
import type { BlobUnavailable, StoreUnavailable } from "./PortErrors.ts"

/** Prefix of the lineage entries in the blob store. Sweeps never look for orphans here. */
export const lineageRoot = "lineage"

/** Maximum number of entries kept. A blob store never has more at a time, so no existing entry is forgotten. */
const maxEntries = 1_000
/** Maximum number of gaps kept. Beyond it, neighbors are merged, which only protects more blobs. */
const maxGaps = 500
/** Gaps this close are kept as one, milliseconds: a rolling deployment leaves one gap, not one for each process. */
const mergeGapsWithinMs = 3_600_000

/** A range of creation times of ids, inclusive, in Unix milliseconds. */
export type LineageGap = readonly [from: number, to: number]

/**
 * The store's record of the blob store it uses. Each start, and every few minutes each running installation, adds an entry to the
 * store and then to the blob store. An older copy of the store lacks the newer entries, so it can detect that it is behind.
 */
export interface BlobLineage {
  /** Generation of the newest entry; 0 before the first. */
  readonly generation: number
  /** Every entry that may still be in the blob store, oldest first. */
  readonly entries: ReadonlyArray<string>
  /** Store time of the newest entry, Unix milliseconds: a copy of this store was made later than this. */
  readonly seenAt: number
  /**
   * Times for which the store cannot vouch, because another copy of it may have accepted jobs then. A blob whose id was created
   * in a gap is never removed for lack of a record.
   */
  readonly gaps: ReadonlyArray<LineageGap>
  /**
   * Store time at which an operator last adopted these records as a copy; 0 if never. Until then, another copy may have continued
   * any job of these records, so a blob of an older job is not removed for what its record says of claims.
   */
  readonly adoptedAt: number
}

export const emptyLineage: BlobLineage = { generation: 0, entries: [], seenAt: 0, gaps: [], adoptedAt: 0 }

/** The blob store has entries that the store does not know: the store is an older copy, or another copy is in use. */
export class StoreBehindBlobs extends Data.TaggedError("StoreBehindBlobs")<{
  /** The newest generation that the store knows. */
  readonly generation: number
  /** The entries in the blob store that it does not know. */
  readonly entries: ReadonlyArray<string>
}> {
  override get message(): string {
    return (
      `the database knows generation ${this.generation} of these blobs, but not ${this.entries.join(", ")}: it is an older copy, ` +
      "or another copy of it uses the same blobs. Nothing is removed until this is resolved: stop the process that uses the " +
      "wrong database, or run kiln adopt on the database to continue with"
    )
  }
}

/** Everything that checking a lineage may fail with. */
export type LineageFailure = StoreBehindBlobs | StoreUnavailable | BlobUnavailable

/** Returns the key of an entry in the blob store. */
export const lineageKey = (entry: string): string => `${lineageRoot}/${entry}`

/** Returns the entry with this key; `undefined` if it is not the key of an entry. */
export const entryOfKey = (key: string): string | undefined =>
  /^lineage\/[0-9]{10}\/[0-9a-z]+$/.test(key) ? key.slice(lineageRoot.length + 1) : undefined

/** Returns the generation in an entry's name, or 0 without one. */
const generationOf = (entry: string): number => Number(/^[0-9]+/.exec(entry)?.[0] ?? 0)

const append = (lineage: BlobLineage, nonce: string, now: number): BlobLineage => {
  const generation = lineage.generation + 1
  const entry = `${String(generation).padStart(10, "0")}/${nonce}`
  return {
    generation,
    entries: [...lineage.entries, entry].slice(-maxEntries),
    seenAt: Math.max(lineage.seenAt, now),
    gaps: lineage.gaps,
    adoptedAt: lineage.adoptedAt,
  }
}

/** Adds a gap after all others and merges close neighbors; if there are too many gaps, the closest ones are merged first. */
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
 * Returns the lineage after a start at `now`. The store may be a copy made at any time after `seenAt`, and another copy may have
 * been in use until now, so the time in between becomes a gap.
 */
export const startLineage = (lineage: BlobLineage, nonce: string, now: number): BlobLineage => ({
  ...append(lineage, nonce, now),
  gaps: withGap(lineage.gaps, [lineage.seenAt, Math.max(lineage.seenAt, now)]),
})

/** Returns the lineage after another entry by an installation that has been running since the last one. */
export const continueLineage = append

/**
 * Returns the lineage after an operator chose this store as the one to continue with, regardless of what other copies wrote. It
 * is unknown since when they wrote, so everything up to now becomes one gap.
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
  return { ...adopted, gaps: [[0, adopted.seenAt]], adoptedAt: adopted.seenAt }
}

/** Returns the entries of a blob store that the store does not know. */
export const unknownEntries = (lineage: BlobLineage, found: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Set(lineage.entries)
  return found.filter((entry) => !known.has(entry))
}

/** Returns entries that may be removed from the blob store, because a newer entry there supersedes them. */
export const staleEntries = (lineage: BlobLineage, found: ReadonlyArray<string>): ReadonlyArray<string> => {
  const newest = lineage.entries.at(-1)
  if (newest === undefined || !found.includes(newest)) return []
  const known = new Set(lineage.entries)
  return found.filter((entry) => entry !== newest && known.has(entry))
}

/**
 * Returns whether a blob without a record may be removed: only if the store was certainly in use when the blob's owner was
 * created, and the grace period has passed. The grace period also bounds how far the clocks of machines may differ: they create
 * the ids, and everything else here is store time.
 */
export const vouchesForAbsence = (
  lineage: BlobLineage,
  id: {
    /** When the owner's id was created, Unix milliseconds. */
    readonly madeAt: number
    /** When the id of the store's newest record was created; `undefined` if the store is empty. */
    readonly newestAt: number | undefined
    readonly graceMs: number
  },
): boolean => {
  const { graceMs, madeAt, newestAt } = id
  if (newestAt === undefined || madeAt > newestAt || madeAt + graceMs > lineage.seenAt) return false
  return lineage.gaps.every(([from, to]) => madeAt < from - graceMs || madeAt > to + graceMs)
}

/**
 * Returns whether what a record says of its claims also holds for blobs: not for jobs and uploads that were created before these
 * records were adopted, because the copy in use until then may have written and committed blobs under the same tokens.
 */
export const vouchesForTokens = (lineage: BlobLineage, madeAt: number, graceMs: number): boolean =>
  lineage.adoptedAt === 0 || madeAt > lineage.adoptedAt + graceMs

/** Encodes a lineage as one line of JSON for the store. */
export const encodeLineage = ({ adoptedAt, entries, gaps, generation, seenAt }: BlobLineage): string =>
  JSON.stringify({ generation, entries, seenAt, gaps, adoptedAt })

/** Decodes the output of `encodeLineage`; `null` means a store without a lineage. Throws `TypeError` for anything else. */
export const decodeLineage = (document: string | null): BlobLineage => {
  if (document === null) return emptyLineage
  const lineage: unknown = JSON.parse(document)
  // A process of a version without adoptions writes none.
  if (isLineage(lineage)) return { ...lineage, adoptedAt: lineage.adoptedAt ?? 0 }
  throw new TypeError("the store's lineage record cannot be decoded")
}

type StoredDocument = Omit<BlobLineage, "adoptedAt"> & Partial<Pick<BlobLineage, "adoptedAt">>

const isLineage = (value: unknown): value is StoredDocument => {
  if (typeof value !== "object" || value === null) return false
  const {
    adoptedAt = 0,
    entries,
    gaps,
    generation,
    seenAt,
  } = value as {
    readonly [Field in keyof BlobLineage]?: unknown
  }
  return [generation, seenAt, adoptedAt].every(isNumber) && isListOf(entries, isText) && isListOf(gaps, isGap)
}
const isNumber = (value: unknown): value is number => typeof value === "number"
const isText = (value: unknown): value is string => typeof value === "string"
const isListOf = <A>(value: unknown, isOne: (one: unknown) => one is A): value is ReadonlyArray<A> =>
  Array.isArray(value) && value.every(isOne)
const isGap = (value: unknown): value is LineageGap => isListOf(value, isNumber) && value.length === 2
