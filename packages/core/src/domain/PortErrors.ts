import { isError } from "./givenValues.ts"
import { KilnError } from "./KilnError.ts"

const reasonOf = (cause: unknown): string => (isError(cause) ? cause.message : String(cause))

/**
 * A store cannot be reached or gave an invalid answer. It is unknown whether a write happened. Every verb can be repeated, a
 * creation with the same idempotency key.
 */
export class StoreUnavailable extends KilnError<"StoreUnavailable"> {
  readonly operation: string
  /** Whether another transaction holds a lock that an item needs. Nothing was written. Each item may succeed alone, or later. */
  readonly contended: boolean

  constructor({
    cause,
    contended = false,
    operation,
  }: {
    readonly operation: string
    readonly cause: unknown
    readonly contended?: boolean
  }) {
    super("StoreUnavailable", `the store is unavailable (${operation}): ${reasonOf(cause)}`, { cause })
    this.operation = operation
    this.contended = contended
  }
}

/** The blob store cannot be reached or gave an invalid answer. */
export class BlobUnavailable extends KilnError<"BlobUnavailable"> {
  readonly operation: string

  constructor({ cause, operation }: { readonly operation: string; readonly cause: unknown }) {
    super("BlobUnavailable", `the blob store is unavailable (${operation}): ${reasonOf(cause)}`, { cause })
    this.operation = operation
  }
}

/** The stored bytes are not the ones that were written: their length or SHA-256 differs. */
export class BlobCorrupt extends KilnError<"BlobCorrupt"> {
  readonly key: string

  constructor({ key }: { readonly key: string }) {
    super("BlobCorrupt", `the blob ${key} is damaged: its length or SHA-256 differs from what was written`)
    this.key = key
  }
}

/** A blob store has no blob under this key. Operations of the engine never fail with it. */
export class BlobNotFound extends Error {
  override readonly name = "BlobNotFound"
  readonly _tag = "BlobNotFound"
  readonly key: string

  constructor({ key }: { readonly key: string }) {
    super(`no blob ${key}`)
    this.key = key
  }
}

/** The content was longer than allowed; none of it can be read. Operations of the engine fail with `FileTooLarge` instead. */
export class BlobTooLarge extends Error {
  override readonly name = "BlobTooLarge"
  readonly _tag = "BlobTooLarge"
  /** Inclusive. */
  readonly maxBytes: number

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    super(`the content has more than ${maxBytes} bytes`)
    this.maxBytes = maxBytes
  }
}

/** A part of the schema and how it differs. */
interface Difference {
  readonly object: string
  readonly problem: "missing" | "changed" | "extra"
}

/** A database has kiln's tables, but other ones than this version's migrations of the same names create. */
export class SchemaMismatch extends Error {
  override readonly name = "SchemaMismatch"
  readonly _tag = "SchemaMismatch"
  /** The migrations that were applied with another text. */
  readonly changed: ReadonlyArray<string>
  /** The parts of the schema that show it; empty if the recorded digest does. */
  readonly differences: ReadonlyArray<Difference>

  constructor({
    changed,
    differences = [],
  }: {
    readonly changed: ReadonlyArray<string>
    readonly differences?: ReadonlyArray<Difference>
  }) {
    super(
      `its schema is that of another development version of kiln, or was changed by hand: ${changed.join(", ")} ` +
        `had another text${listed(differences)}. Nothing was changed. Run the version of kiln that created it to finish ` +
        "its jobs and to export its records (kiln job list --json, kiln billing export), and begin with an empty database",
    )
    this.changed = changed
    this.differences = differences
  }
}

/** Maximum number of differences in the message. */
const mostListed = 3

const listed = (differences: ReadonlyArray<Difference>): string => {
  if (differences.length === 0) return ""
  const first = differences.slice(0, mostListed).map(({ object, problem }) => `${object} is ${problem}`)
  const more = differences.length - first.length
  return ` (${first.join(", ")}${more > 0 ? `, and ${more} more` : ""})`
}

/** The records are not where they were last used: they are a copy, or they were moved by copying them. */
export class StoreCopied extends Error {
  override readonly name = "StoreCopied"
  readonly _tag = "StoreCopied"
  /** The place in which the records were last used. */
  readonly recorded: string
  /** The place in which they are now. */
  readonly found: string

  constructor({ found, recorded }: { readonly recorded: string; readonly found: string }) {
    super(
      `the records in ${found} are a copy: they were last used in ${recorded}. No job is run and nothing is removed, ` +
        "because the original may have done so since. Use the original, or adopt the copy: kiln adopt, or adoptCopy() in a program",
    )
    this.recorded = recorded
    this.found = found
  }
}
