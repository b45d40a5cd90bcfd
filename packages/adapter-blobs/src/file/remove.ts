import { access, rm, unlink } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { attempt, type BlobDirectory, nestedDirectoryOf, nestedFileOf, shardUnder } from "./BlobDirectory.ts"
import { hasCode, removeEmptyDirectories } from "./system.ts"
import { removeTemporaries, syncTemporaries } from "./put.ts"

export const remove = (directory: BlobDirectory): BlobStore["Service"]["remove"] =>
  Effect.fnUntraced(function* (prefix) {
    yield* requireBlobKey(prefix)
    yield* attempt(directory, "remove", () => removeDurably(directory, prefix))
  })

// The last pass finds nothing. More than two are needed only while another call writes below the prefix.
const PASSES = 6

/** Removes and syncs. Syncs even if there is nothing to remove, because an earlier call may have been killed before its sync. */
const removeDurably = async (directory: BlobDirectory, prefix: string): Promise<void> => {
  // In another directory, there is nothing to remove, and the blobs would come back with this one.
  await directory.root.expectPresent()
  for (let pass = 1; ; pass++) {
    // Before the blobs: a file that was already renamed is then found among the blobs, and no later rename can succeed.
    await removeTemporaries(directory, prefix)
    const [inShard, nested] = await Promise.all([removeFromShard(directory, prefix), removeNested(directory, prefix)])
    if (!inShard && !nested) break
    if (pass === PASSES) throw new Error("blobs were written under the prefix while it was being removed")
  }
  await Promise.all([syncTemporaries(directory), syncShard(directory, prefix), syncNested(directory, prefix)])
  await directory.root.expectPresent()
}

/** Returns whether there was anything to remove. */
const removeFromShard = async (directory: BlobDirectory, prefix: string): Promise<boolean> => {
  const shard = shardUnder(directory, prefix)
  if (shard === undefined) return false
  const names = (await directory.scans.of(shard.directory)).filter(shard.includes)
  for (const name of names) await rm(join(shard.directory, name), { force: true })
  return names.length > 0
}

/** Removes the file and the directory with the name of the prefix. Returns whether there were any. */
const removeNested = async (directory: BlobDirectory, prefix: string): Promise<boolean> => {
  const file = await unlinked(nestedFileOf(directory, prefix))
  const below = nestedDirectoryOf(directory, prefix)
  if (await isGone(below)) return file
  await rm(below, { force: true, recursive: true }).catch((error: unknown) => {
    if (!hasCode(error, "ENOTEMPTY")) throw error
  })
  return true
}

const syncShard = async (directory: BlobDirectory, prefix: string): Promise<void> => {
  const shard = shardUnder(directory, prefix)
  if (shard === undefined) return
  await directory.syncs.sync(shard.directory).catch((error: unknown) => {
    // Nothing was ever stored there.
    if (!hasCode(error, "ENOENT")) throw error
  })
}

/** Syncs the nearest directory above the prefix that has other entries, and removes those in between, which are empty. */
const syncNested = (directory: BlobDirectory, prefix: string): Promise<void> =>
  removeEmptyDirectories(dirname(nestedFileOf(directory, prefix)), directory.blobs, (path) =>
    directory.syncs.sync(path),
  )

/** Removes a file. Returns whether there was one. */
const unlinked = (path: string): Promise<boolean> =>
  unlink(path).then(
    () => true,
    (error: unknown) => {
      if (hasCode(error, "ENOENT")) return false
      throw error
    },
  )

const isGone = (path: string): Promise<boolean> =>
  access(path).then(
    () => false,
    (error: unknown) => {
      if (hasCode(error, "ENOENT")) return true
      throw error
    },
  )
