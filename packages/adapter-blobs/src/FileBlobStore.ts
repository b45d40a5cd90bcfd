import { BlobStore } from "@kiln/core/ports"
import type { BlobUnavailable } from "@kiln/core/domain"
import { Effect, Layer } from "effect"
import { openBlobDirectory } from "./file/BlobDirectory.ts"
import { list } from "./file/list.ts"
import { open } from "./file/open.ts"
import { put } from "./file/put.ts"
import { remove } from "./file/remove.ts"
import { removeAbandoned } from "./file/Temporary.ts"

/**
 * Blobs as files below one directory, which several processes of one machine may share.
 *
 * What `put` returned for survives a power failure: the bytes go to a temporary file, that is synced,
 * renamed into place, and the directories above are synced. Nothing is ever readable under its key but
 * whole. Files are the bytes followed by a 64-byte footer with their length and SHA-256, so the two
 * cannot come apart; they are readable by their owner only.
 *
 * Temporary files go with the prefix their key is under; a put that is still writing one then fails. Their names
 * contain the key: keys longer than 200 characters, which kiln never makes, may be refused.
 *
 * Disk full, no permission, input/output errors and the like are `BlobUnavailable`, with the system's
 * error as its cause.
 */
export const FileBlobStore = {
  /**
   * Creates `directory` where it is missing. Temporary files that a killed process left go when nobody wrote to them for
   * an hour: at the start, or by the next `put` or `list`.
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
        }),
      ),
    ),
}
