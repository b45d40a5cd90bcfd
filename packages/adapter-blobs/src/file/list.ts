import type { Dir } from "node:fs"
import { opendir } from "node:fs/promises"
import { join } from "node:path"
import { BlobUnavailable } from "@kiln/core/domain"
import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { attempt, type BlobDirectory, entryOf, keyInShard, nestedDirectoryOf, shardUnder } from "./BlobDirectory.ts"
import { hasCode } from "./system.ts"
import { removeAbandoned } from "./put.ts"

/** Lists keys, and deletes abandoned temporary files: the orphan sweep lists regularly, even in a store without writes. */
export const list =
  (directory: BlobDirectory): BlobStore["Service"]["list"] =>
  (prefix) =>
    Stream.fromEffectDrain(Effect.andThen(requireBlobKey(prefix), Effect.ignore(removeAbandoned(directory)))).pipe(
      Stream.concat(
        Stream.suspend(() =>
          Stream.fromAsyncIterable(
            keysUnder(directory, prefix),
            (cause) => new BlobUnavailable({ operation: "list", cause }),
          ),
        ),
      ),
      // A directory that is gone has no keys. That must not count as an empty store.
      Stream.concat(Stream.fromEffectDrain(attempt(directory, "list", () => directory.root.expectPresent()))),
    )

type Keys = AsyncGenerator<string, void, undefined>

/** Reads directories lazily, because a store may hold more keys than fit into memory. */
async function* keysUnder(directory: BlobDirectory, prefix: string): Keys {
  const shard = shardUnder(directory, prefix)
  const [root = ""] = prefix.split("/")
  if (shard !== undefined)
    for await (const key of keysInShard(shard.directory, root, shard.includes)) if (key !== prefix) yield key
  yield* keysBelow(nestedDirectoryOf(directory, prefix), prefix)
}

/** Lists the keys in the directory of a prefix: in its shards, if it has some, and those of versions before shards. */
async function* keysBelow(path: string, prefix: string): Keys {
  for await (const entry of await openIfPresent(path)) {
    const { is, key } = entryOf(prefix, entry.name, entry.isDirectory())
    if (is === "shard") yield* keysInShard(join(path, entry.name), prefix, () => true)
    else if (is === "directory") yield* keysBelow(join(path, entry.name), `${prefix}/${entry.name}`)
    else if (is === "key") yield key
  }
}

async function* keysInShard(path: string, root: string, includes: (file: string) => boolean): Keys {
  for await (const { name } of await openIfPresent(path, ENTRIES_AT_ONCE)) {
    const key = includes(name) ? keyInShard(root, name) : undefined
    if (key !== undefined) yield key
  }
}

/** A shard may hold many files; each read of a few is a call. */
const ENTRIES_AT_ONCE = 512

const openIfPresent = async (path: string, bufferSize?: number): Promise<Dir | ReadonlyArray<never>> => {
  try {
    return await opendir(path, bufferSize === undefined ? {} : { bufferSize })
  } catch (error) {
    if (hasCode(error, "ENOENT")) return []
    throw error
  }
}
