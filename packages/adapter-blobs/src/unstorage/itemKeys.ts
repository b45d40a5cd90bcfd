import { isBlobKey } from "@kiln/core/domain"

// `:` is the separator in every driver. No item's key is a prefix of another's (for some drivers `a` is a file and `a:b`
// needs a directory `a`), and the last part contains a dash or a dot, which no part of a blob's key does.

/** Returns the prefix of all items of the blob `key` and of blobs under `key/`. */
export const baseOf = (key: string): string => key.replaceAll("/", ":")

/** Returns the key of a chunk. Each put has a new `writeId`, so no put touches the chunks of another. */
export const chunkKey = (key: string, writeId: string, index: number): string =>
  `${baseOf(key)}:chunk-${writeId}-${index}`

const MANIFEST = ":manifest.json"

export const manifestKey = (key: string): string => baseOf(key) + MANIFEST

/** Returns the key of the blob whose manifest this item is; `undefined` for other items. */
export const blobOfManifest = (itemKey: string): string | undefined => {
  if (!itemKey.endsWith(MANIFEST)) return undefined
  const key = itemKey.slice(0, -MANIFEST.length).replaceAll(":", "/")
  return isBlobKey(key) ? key : undefined
}
