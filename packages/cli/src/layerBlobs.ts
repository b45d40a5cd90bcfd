import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { FileBlobStore, UnstorageBlobStore } from "@kiln/adapter-blobs"
import type { BlobUnavailable } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import { holdsBackups } from "./backup/backupMarker.ts"
import { causeMessage, type CommandFailed, failed, misused } from "./CommandFailed.ts"
import { type DatabasePlace, describeDatabase } from "./database/DatabasePlace.ts"
import { databaseProblem } from "./database/databaseProblem.ts"
import { loadPostgres } from "./database/loadPostgres.ts"
import { loadUnstorage } from "./loadModule.ts"
import { ProcessIo } from "./ProcessIo.ts"
import type { Settings } from "./Settings.ts"
import type { S3Url } from "./settings/blobPlace.ts"

/** Names the blob store in a sentence. */
export const describeBlobs = ({ blobs, dataDirectory, database }: Settings): string => {
  switch (blobs._tag) {
    case "Postgres":
      return `the blob store in ${describeDatabase(database)}`
    case "S3":
      return `the blob store ${s3Name(blobs)}`
    default:
      return `the blob store ${blobs.path ?? dataDirectory}`
  }
}

/** Returns advice for several machines if records are shared and files are in this machine's data directory. */
export const localFilesHint = ({ blobs, dataDirectory, database }: Settings): string | undefined =>
  database._tag === "Postgres" && blobs._tag === "Directory" && blobs.path === undefined
    ? `files are stored in ${dataDirectory} on this machine; processes on other machines need the same files: set KILN_BLOBS to postgres, an s3:// URL or a shared directory in all of them`
    : undefined

const s3Name = ({ bucket, endpoint, prefix }: S3Url): string =>
  `s3://${bucket}${prefix === undefined ? "" : `/${prefix}`}${endpoint === undefined ? "" : ` at ${endpoint}`}`

/** `name` is the setting or the flag that names the blob store. */
export const blobsUnusable = (error: BlobUnavailable, name = "KILN_BLOBS"): CommandFailed =>
  failed(`${name}: cannot use the blob store: ${causeMessage(error.cause)}`)

/** Opens the configured blob store. */
export const layerBlobs = (settings: Settings, name = "KILN_BLOBS"): Layer.Layer<BlobStore, CommandFailed> =>
  openBlobs(settings, name).pipe(
    Layer.catchTag("BlobUnavailable", (error) => Layer.effectContext(Effect.fail(blobsUnusable(error, name)))),
  )

const openBlobs = (
  { blobs, dataDirectory, database }: Settings,
  name: string,
): Layer.Layer<BlobStore, CommandFailed | BlobUnavailable> => {
  switch (blobs._tag) {
    case "Directory":
      return openDirectory(blobs.path ?? dataDirectory, name)
    case "Postgres":
      return Layer.unwrap(openPostgres(database))
    case "Module":
      return Layer.unwrap(
        Effect.map(loadUnstorage(blobs.path, name), (storage) => UnstorageBlobStore.layer({ storage })),
      )
    case "S3":
      return Layer.unwrap(openS3(blobs, name))
  }
}

/** Sweeps there would remove what only older backups need. */
const openDirectory = (directory: string, name: string): Layer.Layer<BlobStore, CommandFailed | BlobUnavailable> =>
  holdsBackups(directory)
    ? Layer.effectContext(
        Effect.fail(failed(`${name}: ${directory} holds backups, not the files of an installation: see kiln restore`)),
      )
    : FileBlobStore.layer({ directory })

const openPostgres = (place: DatabasePlace) =>
  place._tag === "Postgres"
    ? Effect.map(loadPostgres, ({ PostgresBlobStore }) =>
        PostgresBlobStore.layer({ url: place.url, schema: place.schema, pooler: place.pooler }).pipe(
          // The records are in the same database, and it is opened for both at once: whichever fails first, the message is one.
          Layer.catchTag("BlobUnavailable", ({ cause }) =>
            Layer.effectContext(Effect.fail(databaseProblem(place, cause))),
          ),
        ),
      )
    : Effect.die(new TypeError("the settings accept blobs in Postgres only with a Postgres database"))

/** The adapter is loaded on demand, so that others do not wait for it. */
const openS3 = ({ bucket, endpoint, prefix, region, style }: S3Url, name: string) =>
  Effect.flatMap(ProcessIo, ({ environment }) =>
    Effect.tryPromise({
      try: async () => {
        const { awsCredentials, awsRegion, S3BlobStore } = await import("@kiln/adapter-s3")
        return S3BlobStore.layer({
          bucket,
          prefix,
          region: region ?? (await awsRegion(environment)),
          endpoint,
          pathStyle: style === undefined ? undefined : style === "path",
          credentials: awsCredentials(environment),
        })
      },
      catch: (cause) => misused(`${name}: ${causeMessage(cause)}`),
    }),
  )
