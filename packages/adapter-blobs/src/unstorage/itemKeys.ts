import { isBlobKey } from "@kiln/core/domain"

// `:` is the separator of every driver. An item is never above another (`a` and `a:b` are a file and a directory to
// some), and the last part has a dash or a dot, which no part of a blob's key has.

/** Everything that belongs to the blob `key`, and to blobs under `key/`, lies below this. */
export const baseOf = (key: string): string => key.replaceAll("/", ":")

/** `writeId` is new for each put, so that no put ever touches the chunks of another. */
export const chunkKey = (key: string, writeId: string, index: number): string =>
  `${baseOf(key)}:chunk-${writeId}-${index}`

const MANIFEST = ":manifest.json"

export const manifestKey = (key: string): string => baseOf(key) + MANIFEST

/** The blob whose manifest this item is, if it is one. */
export const blobOfManifest = (itemKey: string): string | undefined => {
  if (!itemKey.endsWith(MANIFEST)) return undefined
  const key = itemKey.slice(0, -MANIFEST.length).replaceAll(":", "/")
  return isBlobKey(key) ? key : undefined
}
