import { Effect, Layer } from "effect"
import type { BlobStore, SecretStore } from "@kiln/core/ports"
import { type CommandFailed, failed } from "../CommandFailed.ts"
import { describeDatabase } from "../database/DatabasePlace.ts"
import { blobsUnusable, describeBlobs } from "../layerBlobs.ts"
import type { Settings } from "../Settings.ts"
import { databaseSilent } from "../startProblems.ts"
import { claimBlobStore, type ForeignBlobStore } from "./claimBlobStore.ts"
import { markerOf } from "./markers.ts"

const foreign = (settings: Settings, { installationId, markers }: ForeignBlobStore): CommandFailed =>
  failed(
    `${describeBlobs(settings)} belongs to another installation than ${describeDatabase(settings.database)}: ` +
      `it is marked ${markers.join(", ")} and not ${markerOf(installationId)}; check that DATABASE_URL, KILN_DATA_DIR and KILN_BLOBS name the same installation`,
  )

/** Starts nothing where records and blobs do not belong together. */
export const layerInstallation = (settings: Settings): Layer.Layer<never, CommandFailed, SecretStore | BlobStore> =>
  Layer.effectDiscard(
    claimBlobStore.pipe(
      Effect.catchTags({
        ForeignBlobStore: (error) => Effect.fail(foreign(settings, error)),
        BlobUnavailable: (error) => Effect.fail(blobsUnusable(error)),
        StoreUnavailable: (error) => Effect.fail(databaseSilent(error)),
      }),
    ),
  )
