import { realpathSync, statSync } from "node:fs"
import * as Effect from "effect/Effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { type PlaceFacts, StorePlace } from "@kiln/core/ports"
import type { SqliteOptions } from "./openDatabase.ts"

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
export const sqlitePlace = ({
  allowCopies = false,
  path,
}: Pick<SqliteOptions, "path" | "allowCopies">): StorePlace["Service"] =>
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
