import { access, rm } from "node:fs/promises"
import { dirname } from "node:path"
import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { attempt, type BlobDirectory, directoryOf, fileOf } from "./BlobDirectory.ts"
import { hasCode, removeEmptyDirectories } from "./system.ts"
import { removeTemporaries } from "./Temporary.ts"

export const remove = (directory: BlobDirectory): BlobStore["Service"]["remove"] =>
  Effect.fnUntraced(function* (prefix) {
    yield* requireBlobKey(prefix)
    yield* attempt(directory, "remove", () => removeDurably(directory, prefix))
  })

// More than one attempt is needed only while another call writes below the prefix.
const PASSES = 5

/** Removes and syncs. Syncs even if there is nothing to remove, because an earlier call may have been killed before its sync. */
const removeDurably = async (directory: BlobDirectory, prefix: string): Promise<void> => {
  // In another directory, there is nothing to remove, and the blobs would come back with this one.
  await directory.root.expectPresent()
  const file = fileOf(directory, prefix)
  const below = directoryOf(directory, prefix)
  for (let pass = 1; pass <= PASSES; pass++) {
    // Before the blobs: a file that was already renamed is then found among the blobs, and no later rename can succeed.
    await removeTemporaries(directory, prefix)
    await rm(file, { force: true })
    await rm(below, { force: true, recursive: true }).catch((error: unknown) => {
      if (!hasCode(error, "ENOTEMPTY")) throw error
    })
    if ((await isGone(file)) && (await isGone(below))) {
      await removeEmptyDirectories(dirname(file), directory.blobs)
      await directory.root.expectPresent()
      return
    }
  }
  throw new Error("blobs were written under the prefix while it was being removed")
}

const isGone = (path: string): Promise<boolean> =>
  access(path).then(
    () => false,
    (error: unknown) => {
      if (hasCode(error, "ENOENT")) return true
      throw error
    },
  )
