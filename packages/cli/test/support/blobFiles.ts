import { join } from "node:path"

// The layout of a directory of files once more, which shares no code with the store.

/** Returns the path of a blob's file. */
export const blobFile = (directory: string, key: string): string => {
  const [root = "", id = "", ...rest] = key.split("/")
  const shard = `shard-${`${id}00000000`.slice(6, 8)}`
  return (
    join(directory, "blobs", ...(rest.length === 0 ? [root, id] : [root, shard, [id, ...rest].join(".")])) + ".blob"
  )
}

/** Returns the key of a blob's file, also of one that a version before shards stored. `path` is below `blobs`. */
export const keyOfBlobFile = (path: string): string =>
  path
    .replace(/\.blob$/, "")
    .replace(/\/shard-[0-9a-z]{2}\//, "/")
    .replaceAll(/(?<=[0-9a-z])\./g, "/")
