import { createHash } from "node:crypto"
import { join } from "node:path"
import { isBlobKey } from "@kiln/core/domain"
import type { BlobInfo } from "@kiln/core/ports"
import type { BlobDirectory } from "./BlobDirectory.ts"

// A key of three parts or more is one file in a directory that it shares with other keys, a shard:
//
//   jobs/01k4xq7c…/1/audio   blobs/jobs/shard-7c/01k4xq7c….1.audio.blob
//
// So a put makes no directories, and puts at the same time share a sync. Shards are never removed. Shorter keys are files of their own
// name. Versions before shards wrote every key that way (`blobs/jobs/01k4xq7c…/1/audio.blob`); such files are still read, listed and
// removed. Keys contain neither dots nor dashes, so no two keys have the same file, and no part of a key is the name of a shard.
// Names are lower case; the longest is that of a temporary file, 42 characters more than the key.

const BLOB_SUFFIX = ".blob"

const isShard = (name: string): boolean => /^shard-[0-9a-z]{2}$/.test(name)

/**
 * Returns the name of an id's shard. An id begins with its creation time in milliseconds, ten characters of five bits, so these two
 * characters change every second and return to the same value after 17 minutes. Blobs that are written at the same time are mostly of
 * jobs created at the same time, so they share a shard and its syncs, as do blobs that retention removes at the same time; and over
 * time, blobs spread evenly over 1,024 shards.
 */
const shardOf = (id: string): string => `shard-${`${id}00000000`.slice(6, 8)}`

/** Returns the directory that a blob's file is in, and the file's name without its suffix. */
const placeOf = ({ blobs }: Pick<BlobDirectory, "blobs">, key: string) => {
  const [root = "", id = "", ...rest] = key.split("/")
  if (rest.length > 0) return { directory: join(blobs, root, shardOf(id)), name: [id, ...rest].join(".") }
  return id === "" ? { directory: blobs, name: root } : { directory: join(blobs, root), name: id }
}

/** Returns the path of the file to which a blob is written. */
export const fileOf = (directory: Pick<BlobDirectory, "blobs">, key: string): string => {
  const place = placeOf(directory, key)
  return join(place.directory, place.name + BLOB_SUFFIX)
}

/** Returns the path at which versions before shards stored a blob. The same as `fileOf` for keys of one or two parts. */
export const nestedFileOf = ({ blobs }: Pick<BlobDirectory, "blobs">, key: string): string =>
  join(blobs, key + BLOB_SUFFIX)

/** Returns the directory in which versions before shards stored the blobs under `prefix/`. */
export const nestedDirectoryOf = ({ blobs }: Pick<BlobDirectory, "blobs">, prefix: string): string =>
  join(blobs, prefix)

/** A shard, and which of its files belong to blobs under a prefix. */
export interface ShardView {
  readonly directory: string
  /** Returns whether a file's name is that of the blob `prefix`, or of one under `prefix/`. */
  readonly includes: (file: string) => boolean
}

/** Returns the only shard that may contain blobs under `prefix/`; `undefined` for a prefix of one part, whose blobs are in all of them. */
export const shardUnder = ({ blobs }: Pick<BlobDirectory, "blobs">, prefix: string): ShardView | undefined => {
  const [root = "", id, ...rest] = prefix.split("/")
  if (id === undefined) return undefined
  const name = [id, ...rest].join(".")
  return {
    directory: join(blobs, root, shardOf(id)),
    includes: (file) => file.startsWith(`${name}.`) && isBlobFile(file),
  }
}

/** Returns whether a file's name is that of a blob and not of a foreign file. */
const isBlobFile = (name: string): boolean => /^[0-9a-z]+(\.[0-9a-z]+)*\.blob$/.test(name)

/** An entry of a directory below `blobs/<prefix>`. */
export type Entry =
  | { readonly is: "key"; readonly key: string }
  | { readonly is: "shard" | "directory" | "foreign"; readonly key?: never }

/** Returns what an entry of the directory `blobs/<prefix>` is. */
export const entryOf = (prefix: string, name: string, isDirectory: boolean): Entry => {
  if (isDirectory) return { is: isShard(name) ? (prefix.includes("/") ? "foreign" : "shard") : "directory" }
  if (!name.endsWith(BLOB_SUFFIX)) return { is: "foreign" }
  const key = `${prefix}/${name.slice(0, -BLOB_SUFFIX.length)}`
  return isBlobKey(key) ? { is: "key", key } : { is: "foreign" }
}

/** Returns the key of a file in a shard of `root`; `undefined` for a foreign file. */
export const keyInShard = (root: string, name: string): string | undefined =>
  isBlobFile(name) ? `${root}/${name.slice(0, -BLOB_SUFFIX.length).replaceAll(".", "/")}` : undefined

// The last 64 bytes of a blob's file:
//
//   8  "kilnblb1"
//   8  length of the blob, big-endian
//  32  SHA-256 of the blob
//  16  SHA-256 of the 48 bytes above, truncated
//
// A footer rather than a header, so that files are written front to back and media players can open them as they are.
// Not a second file, because a crash or a restored backup may leave one without the other.

const MAGIC = Buffer.from("kilnblb1", "latin1")
const CHECKED_BYTES = 48
export const FOOTER_BYTES = 64

export const encodeFooter = ({ bytes, sha256 }: BlobInfo): Uint8Array => {
  const footer = Buffer.alloc(FOOTER_BYTES)
  MAGIC.copy(footer)
  footer.writeBigUInt64BE(BigInt(bytes), 8)
  footer.write(sha256, 16, "hex")
  checkOf(footer).copy(footer, CHECKED_BYTES)
  return footer
}

/** Decodes a footer; `undefined` if the bytes are not a valid footer. */
export const decodeFooter = (footer: Uint8Array): BlobInfo | undefined => {
  const view = Buffer.from(footer.buffer, footer.byteOffset, footer.byteLength)
  if (view.length !== FOOTER_BYTES || !view.subarray(0, 8).equals(MAGIC)) return undefined
  if (!view.subarray(CHECKED_BYTES).equals(checkOf(view))) return undefined
  return { bytes: Number(view.readBigUInt64BE(8)), sha256: view.toString("hex", 16, CHECKED_BYTES) }
}

const checkOf = (footer: Buffer): Buffer =>
  createHash("sha256")
    .update(footer.subarray(0, CHECKED_BYTES))
    .digest()
    .subarray(0, FOOTER_BYTES - CHECKED_BYTES)
