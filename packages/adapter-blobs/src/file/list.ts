import type { Dir } from "node:fs"
import { opendir } from "node:fs/promises"
import { join } from "node:path"
import { BlobUnavailable, isBlobKey } from "@kiln/core/domain"
import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { attempt, BLOB_SUFFIX, type BlobDirectory, directoryOf } from "./BlobDirectory.ts"
import { hasCode } from "./system.ts"
import { removeAbandoned } from "./Temporary.ts"

/** Lists keys, and deletes abandoned temporary files: the orphan sweep lists regularly, even in a store without writes. */
export const list =
  (directory: BlobDirectory): BlobStore["Service"]["list"] =>
  (prefix) =>
    Stream.fromEffectDrain(Effect.andThen(requireBlobKey(prefix), Effect.ignore(removeAbandoned(directory)))).pipe(
      Stream.concat(
        Stream.suspend(() =>
          Stream.fromAsyncIterable(
            keysBelow(directoryOf(directory, prefix), prefix),
            (cause) => new BlobUnavailable({ operation: "list", cause }),
          ),
        ),
      ),
      // A directory that is gone has no keys. That must not count as an empty store.
      Stream.concat(Stream.fromEffectDrain(attempt(directory, "list", () => directory.root.expectPresent()))),
    )

/** Reads directories lazily, because a store may hold more keys than fit into memory. */
async function* keysBelow(path: string, prefix: string): AsyncGenerator<string, void, undefined> {
  const entries = await openIfPresent(path)
  if (entries === undefined) return
  for await (const entry of entries) {
    if (entry.isDirectory()) yield* keysBelow(join(path, entry.name), `${prefix}/${entry.name}`)
    else if (entry.name.endsWith(BLOB_SUFFIX)) {
      const key = `${prefix}/${entry.name.slice(0, -BLOB_SUFFIX.length)}`
      // A foreign file that was copied here.
      if (isBlobKey(key)) yield key
    }
  }
}

const openIfPresent = async (path: string): Promise<Dir | undefined> => {
  try {
    return await opendir(path)
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined
    throw error
  }
}
