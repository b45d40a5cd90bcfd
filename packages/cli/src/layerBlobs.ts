import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { FileBlobStore, UnstorageBlobStore } from "@kiln/adapter-blobs"
import type { BlobUnavailable } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import { causeMessage, type CommandFailed, failed, misused } from "./CommandFailed.ts"
import { loadUnstorage } from "./loadModule.ts"
import type { Settings } from "./Settings.ts"
import type { S3Url } from "./settings/blobPlace.ts"

/** Names the blob store in a sentence. */
export const describeBlobs = ({ blobs, dataDirectory }: Settings): string =>
  `the blob store ${blobs._tag === "S3" ? s3Name(blobs) : (blobs.path ?? dataDirectory)}`

const s3Name = ({ bucket, endpoint, prefix }: S3Url): string =>
  `s3://${bucket}${prefix === undefined ? "" : `/${prefix}`}${endpoint === undefined ? "" : ` at ${endpoint}`}`

export const blobsUnusable = (error: BlobUnavailable): CommandFailed =>
  failed(`KILN_BLOBS: cannot use the blob store: ${causeMessage(error.cause)}`)

/** Opens the configured blob store. */
export const layerBlobs = (settings: Settings): Layer.Layer<BlobStore, CommandFailed> =>
  openBlobs(settings).pipe(
    Layer.catchTag("BlobUnavailable", (error) => Layer.effectContext(Effect.fail(blobsUnusable(error)))),
  )

const openBlobs = ({ blobs, dataDirectory }: Settings): Layer.Layer<BlobStore, CommandFailed | BlobUnavailable> => {
  switch (blobs._tag) {
    case "Directory":
      return FileBlobStore.layer({ directory: blobs.path ?? dataDirectory })
    case "Module":
      return Layer.unwrap(Effect.map(loadUnstorage(blobs.path), (storage) => UnstorageBlobStore.layer({ storage })))
    case "S3":
      return Layer.unwrap(openS3(blobs))
  }
}

/** The adapter is loaded on demand, so that others do not wait for it. */
const openS3 = ({ bucket, endpoint, prefix, region, style }: S3Url) =>
  Effect.tryPromise({
    try: async () => {
      const { awsCredentials, awsRegion, S3BlobStore } = await import("@kiln/adapter-s3")
      return S3BlobStore.layer({
        bucket,
        prefix,
        region: region ?? (await awsRegion(process.env)),
        endpoint,
        pathStyle: style === undefined ? undefined : style === "path",
        credentials: awsCredentials(process.env),
      })
    },
    catch: (cause) => misused(`KILN_BLOBS: ${causeMessage(cause)}`),
  })
