import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { idTime } from "@kiln/core/domain"
import { type BlobStore, IdGenerator, type JobStore, type SecretStore } from "@kiln/core/ports"
import type { StoreCopied } from "@kiln/core"
import { BlobGuard, requireOriginal, type StoreBehindBlobs } from "@kiln/core/worker"
import { type CommandFailed, failed } from "../CommandFailed.ts"
import { describeDatabase } from "../database/DatabasePlace.ts"
import { blobsUnusable, describeBlobs } from "../layerBlobs.ts"
import { formatTime } from "../Output.ts"
import type { Settings } from "../Settings.ts"
import { databaseSilent } from "../startProblems.ts"
import { claimBlobStore, type ForeignBlobStore, type UnmarkedBlobStore } from "./claimBlobStore.ts"
import { adoptionAdvice, copiedProblem } from "./copiedProblem.ts"
import { markerOf } from "./markers.ts"

const foreign = (settings: Settings, { installationId, markers }: ForeignBlobStore): CommandFailed =>
  failed(
    `${describeBlobs(settings)} belongs to another installation than ${describeDatabase(settings.database)}: ` +
      `its marker is ${markers.join(", ")} instead of ${markerOf(installationId)}; check that DATABASE_URL, KILN_DATA_DIR and KILN_BLOBS name the same installation`,
  )

/** The remedy for a blob store without the marker, in words for messages. */
export const unmarkedAdvice =
  "If it is a mounted disk or a shared directory, mount it, and check that KILN_BLOBS and KILN_DATA_DIR name the right place. To move the files to it, run " +
  "kiln blobs copy --from OLD --to NEW. If they were copied in another way, or are lost, run kiln blobs claim"

const unmarked = (settings: Settings, { installationId }: UnmarkedBlobStore): CommandFailed =>
  failed(
    `${describeBlobs(settings)} has no marker ${markerOf(installationId)}, although ${describeDatabase(settings.database)} was used with one before. ${unmarkedAdvice}`,
  )

/** `0000000012/01k…` as `generation 12 of 2026-11-22T14:13:57Z`. */
const describeEntry = (entry: string): string => {
  const [generation = "", nonce = ""] = entry.split("/")
  const time = idTime(nonce)
  return `generation ${Number(generation)}${time === undefined ? "" : ` of ${formatTime(time)}`}`
}

const behind = (settings: Settings, { entries, generation }: StoreBehindBlobs): CommandFailed =>
  failed(
    `${describeDatabase(settings.database)} is behind ${describeBlobs(settings)}: another copy of this database has written ` +
      `${entries.map(describeEntry).join(", ")} there, and this one knows generations up to ${generation}. Working with these blobs could delete files ` +
      `that this database has no record of, and jobs could be charged twice. ${adoptionAdvice}`,
  )

/** Messages for records and blobs that do not belong together. */
export const installationProblems = (settings: Settings) => ({
  ForeignBlobStore: (error: ForeignBlobStore) => Effect.fail(foreign(settings, error)),
  UnmarkedBlobStore: (error: UnmarkedBlobStore) => Effect.fail(unmarked(settings, error)),
  StoreBehindBlobs: (error: StoreBehindBlobs) => Effect.fail(behind(settings, error)),
  StoreCopied: (error: StoreCopied) => Effect.fail(copiedProblem(settings, error)),
})

/** Prevents startup if the records are a copy, if records and blobs do not belong together, or if the records are behind. */
export const layerInstallation = (
  settings: Settings,
): Layer.Layer<BlobGuard, CommandFailed, SecretStore | JobStore | BlobStore> =>
  Layer.effectDiscard(
    Effect.all([requireOriginal, claimBlobStore, Effect.flatMap(BlobGuard, (guard) => guard.join)], {
      discard: true,
    }).pipe(
      Effect.catchTags({
        ...installationProblems(settings),
        BlobUnavailable: (error) => Effect.fail(blobsUnusable(error)),
        StoreUnavailable: (error) => Effect.fail(databaseSilent(error)),
      }),
    ),
  ).pipe(Layer.provideMerge(BlobGuard.layer), Layer.provide(IdGenerator.layer))
