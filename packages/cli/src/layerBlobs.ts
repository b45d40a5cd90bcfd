import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { FileBlobStore, UnstorageBlobStore } from "@kiln/adapter-blobs"
import type { BlobUnavailable } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import { causeMessage, type CommandFailed, failed } from "./CommandFailed.ts"
import { loadUnstorage } from "./loadModule.ts"
import type { Settings } from "./Settings.ts"

const directoryOf = ({ blobs, dataDirectory }: Settings): string =>
  blobs._tag === "Directory" ? (blobs.path ?? dataDirectory) : blobs.path

/** Names the blob store in a sentence. */
export const describeBlobs = (settings: Settings): string => `the blob store ${directoryOf(settings)}`

export const blobsUnusable = (error: BlobUnavailable): CommandFailed =>
  failed(`KILN_BLOBS: cannot use the blob store: ${causeMessage(error.cause)}`)

/** Opens the configured blob store. */
export const layerBlobs = (settings: Settings): Layer.Layer<BlobStore, CommandFailed> => {
  const { blobs } = settings
  const store =
    blobs._tag === "Directory"
      ? FileBlobStore.layer({ directory: directoryOf(settings) })
      : Layer.unwrap(Effect.map(loadUnstorage(blobs.path), (storage) => UnstorageBlobStore.layer({ storage })))
  return store.pipe(
    Layer.catchTag("BlobUnavailable", (error) => Layer.effectContext(Effect.fail(blobsUnusable(error)))),
  )
}
