import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type BlobAdapter, blobAdapter, BlobStore } from "@kiln/core/ports"
import { type BlobUnavailable, type OptionNames, requireOptions } from "@kiln/core/domain"
import { attempt, fileOf, nestedFileOf, openBlobDirectory } from "./file/BlobDirectory.ts"
import { list } from "./file/list.ts"
import { open } from "./file/open.ts"
import { put, removeAbandoned } from "./file/put.ts"
import { remove } from "./file/remove.ts"

/**
 * Stores blobs as files under one directory, which several processes on one machine may share.
 *
 * Once `put` has returned, the blob survives a power failure: the bytes are written to a temporary file, which is synced and renamed
 * into place, and its directory is synced. A blob is readable under its key either completely or not at all. Each file holds the bytes
 * followed by a 64-byte footer with their length and SHA-256, so data and digest cannot be separated. Only the owner can read the files.
 *
 * The blob `jobs/ID/1/audio` is the file `blobs/jobs/shard-7c/ID.1.audio.blob`; the shard follows from the ID. Blobs that are written
 * at the same time share a shard, and syncs of it. Files of versions before shards, `blobs/jobs/ID/1/audio.blob`, are read, listed and
 * removed like the others. Those versions do not see files in shards, so do not run them beside this one on the same directory.
 *
 * Removing a prefix also removes the temporary files of keys under it; a put that is still writing one then fails.
 * Names of temporary files contain the key, so keys longer than 200 characters, which kiln never generates, may be
 * refused.
 *
 * A full disk, missing permissions, I/O errors and similar failures are reported as `BlobUnavailable`, with the system
 * error as the cause.
 */
export const FileBlobStore = {
  /**
   * Creates `directory` if it does not exist. It is created only here: if it is gone later, every operation fails until it is back. Temporary files left by a killed process are deleted after an hour without
   * writes: at startup, or by the next `put` or `list`.
   */
  layer: (options: { readonly directory: string }): Layer.Layer<BlobStore, BlobUnavailable> =>
    Layer.effect(
      BlobStore,
      Effect.map(Effect.tap(openBlobDirectory(options.directory), removeAbandoned), (directory) =>
        BlobStore.of({
          put: put(directory),
          open: open(directory),
          remove: remove(directory),
          list: list(directory),
          checkPresence: attempt(directory, "checkPresence", () => directory.root.expectPresent()),
        }),
      ),
    ),
  /**
   * Returns the paths at which a store in `directory` may have a blob: the one to which it writes, and the one to which versions before
   * shards wrote. The same path twice for a key of one or two parts.
   */
  pathsOf: (directory: string, key: string): readonly [file: string, nested: string] => {
    const place = { blobs: join(directory, "blobs") }
    return [fileOf(place, key), nestedFileOf(place, key)]
  },
}

const optionNames: OptionNames<Parameters<typeof FileBlobStore.layer>[0]> = { directory: true }

/** Stores blobs as files under one directory, which is created if it does not exist. For programs without Effect; see `FileBlobStore`. */
export const fileBlobs = (options: { readonly directory: string }): BlobAdapter => {
  requireOptions("fileBlobs()", options, optionNames)
  if (typeof options.directory !== "string" || options.directory === "")
    throw new TypeError("fileBlobs() requires the option directory")
  return blobAdapter(FileBlobStore.layer(options))
}
