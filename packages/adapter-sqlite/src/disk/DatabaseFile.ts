import { type BigIntStats, realpathSync, statSync } from "node:fs"
import * as Effect from "effect/Effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { type PlaceFacts, StorePlace } from "@kiln/core/ports"
import type { Reserve } from "./Reserve.ts"

/**
 * Milliseconds for which a transaction relies on the last look at the file. A look costs a writer as much as three of its statements.
 * What is written shortly after the file was removed shares the fate of what was written shortly before.
 */
const goodForMs = { read: 250, write: 5 }

export interface DatabaseFileOptions {
  readonly path: string
  readonly reserve: Reserve
  /** Whether another file may be found at the path, as on file systems whose files change their identity. */
  readonly mayChange: boolean
}

/**
 * The file of an open connection. A connection works on after its file was unlinked or its disk was unmounted, and what it then
 * writes is lost. So transactions look whether the file is still in its place.
 */
export class DatabaseFile {
  readonly path: string
  readonly reserve: Reserve
  readonly #opened: BigIntStats | undefined
  readonly #mayChange: boolean
  #presentAt = Number.NEGATIVE_INFINITY

  constructor({ mayChange, path, reserve }: DatabaseFileOptions) {
    this.path = path
    this.reserve = reserve
    this.#mayChange = mayChange
    this.#opened = statSync(path, { bigint: true, throwIfNoEntry: false })
  }

  /** Returns why the file cannot be used; `undefined` if it is in its place. */
  absence(use: "read" | "write"): Error | undefined {
    const now = performance.now()
    if (now - this.#presentAt < goodForMs[use]) return undefined
    const problem = this.#look()
    this.#presentAt = problem === undefined ? now : Number.NEGATIVE_INFINITY
    return problem
  }

  get isPresent(): boolean {
    return this.#look() === undefined
  }

  #look(): Error | undefined {
    let found: BigIntStats | undefined
    try {
      found = statSync(this.path, { bigint: true, throwIfNoEntry: false })
    } catch (error) {
      return new Error(`the database ${this.path} cannot be reached: see whether its disk is mounted`, { cause: error })
    }
    if (found === undefined)
      return new Error(
        `the database ${this.path} is gone: mount its disk or move it back, and this process continues; it creates no new database`,
      )
    const isSame = this.#opened === undefined || (found.ino === this.#opened.ino && found.dev === this.#opened.dev)
    return isSame || this.#mayChange
      ? undefined
      : new Error(
          `the file ${this.path} is not the database that this process opened: put that one back, or restart the process to use this one`,
        )
  }
}

/** A file as its file system knows it. A copy is another file; renaming and moving within a file system keep it. */
export interface FileIdentity {
  readonly inode: string
  /** When the file was created, in nanoseconds; 0 where the file system does not tell. */
  readonly born: string
  /** Whether `born` is also the time of the last change. Where the system cannot tell the one, Node reports the other. */
  readonly isUnchanged: boolean
  /** The file system. Its number may change when it is mounted again. */
  readonly device: string
}

const identityOf = (path: string): FileIdentity => {
  const { birthtimeNs, ctimeNs, dev, ino } = statSync(path, { bigint: true })
  return {
    inode: String(ino),
    born: String(birthtimeNs),
    isUnchanged: birthtimeNs === ctimeNs,
    device: String(dev),
  }
}

const isText = (value: unknown): value is string => typeof value === "string"
const isInteger = (value: unknown): value is string => isText(value) && /^\d+$/.test(value)

/** Decodes a kept identity; `undefined` for anything else. */
const decode = (document: string): FileIdentity | undefined => {
  const kept: unknown = JSON.parse(document)
  if (typeof kept !== "object" || kept === null) return undefined
  const { born, device, inode, isUnchanged } = kept as { readonly [Field in keyof FileIdentity]?: unknown }
  return isText(inode) && isText(device) && isInteger(born) && typeof isUnchanged === "boolean"
    ? { inode, born, isUnchanged, device }
    : undefined
}

const tellsBirth = (one: FileIdentity, other: FileIdentity): boolean =>
  one.born !== "0" && other.born !== "0" && !(one.isUnchanged && other.isUnchanged)

/** The finest unit in which a runtime reports times: some report nanoseconds, others whole milliseconds. */
const unitOf = (born: bigint): bigint => [1_000_000_000n, 1_000_000n, 1_000n].find((unit) => born % unit === 0n) ?? 1n

/** Whether both are one time, cut or rounded to the coarser unit of the two. */
const isSameTime = (one: string, other: string): boolean => {
  if (one === other) return true
  const [first, second] = [BigInt(one), BigInt(other)]
  const [apart, unit] = [first - second, unitOf(first) > unitOf(second) ? unitOf(first) : unitOf(second)]
  return (apart < 0n ? -apart : apart) < unit
}

/**
 * Whether both are the same file. File systems number their files alike and reuse numbers, so the number alone is not enough: the
 * creation time decides, or the file system where that is unknown.
 */
export const isSameFile = (kept: FileIdentity, now: FileIdentity): boolean =>
  kept.inode === now.inode && (tellsBirth(kept, now) ? isSameTime(kept.born, now.born) : kept.device === now.device)

/** Tells where the file is; nothing if copies are allowed. */
export const sqlitePlace = (path: string, allowCopies = false): StorePlace["Service"] =>
  StorePlace.of({
    read: allowCopies
      ? Effect.undefined
      : Effect.try({
          try: () => placeOf(path),
          catch: (cause) => new StoreUnavailable({ operation: "StorePlace.read", cause }),
        }),
  })

const placeOf = (path: string): PlaceFacts => {
  const now = identityOf(path)
  return {
    description: realpathSync(path),
    document: JSON.stringify(now),
    isSame: (document) => {
      const kept = decode(document)
      return kept !== undefined && isSameFile(kept, now)
    },
  }
}
