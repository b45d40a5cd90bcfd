import { resolve } from "node:path"
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { EngineConfig } from "@kiln/core/effect"
import { type JsonObject, SchemaMismatch } from "@kiln/core/domain"
import { BlobStore, placeSecret, type StoreInspection } from "@kiln/core/ports"
import { StoreCopied } from "@kiln/core"
import { comparePlaces } from "@kiln/core/worker"
import { failed, misused } from "../CommandFailed.ts"
import { databaseProblem } from "../database/databaseProblem.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { compareBlobStore } from "../installation/claimBlobStore.ts"
import { copiedProblem } from "../installation/copiedProblem.ts"
import { installationProblems } from "../installation/layerInstallation.ts"
import { engineSettings } from "../KilnConfig.ts"
import { blobsUnusable, layerBlobs } from "../layerBlobs.ts"
import { loadConfig } from "../loadModule.ts"
import { requireDatabase } from "../database/requireDatabase.ts"
import { openStoresBriefly } from "../openStores.ts"
import { answer, sizeOf } from "../Output.ts"
import { readEnvironment } from "../readEnvironment.ts"
import { appendChange } from "../recordChange.ts"
import type { Settings } from "../Settings.ts"
import { version } from "../version.ts"

const mostKept = 10_000

const flags = {
  directory: Argument.String("DIR").pipe(
    Argument.withDescription("The directory of the backups, best on another disk; it is created if it does not exist"),
  ),
  startOver: Flag.Boolean("start-over").pipe(
    Flag.withDescription("Begin again in an empty directory, although the last backup was written there"),
    Flag.withDefault(false),
  ),
  keep: Flag.Int("keep").pipe(
    Flag.withDescription("Number of backups to keep; older ones are removed, with the files that only they need"),
    Flag.withDefault(7),
  ),
}

/** Opens the records for reading. Refuses a copy, whose backups would be taken for those of the original. */
const openOriginal = Effect.fnUntraced(function* (settings: Settings) {
  const records = yield* (yield* storeMaintenance(settings.database)).inspect
  const { applied = [], changed = [] } = records === undefined ? {} : yield* records.migrations
  if (records === undefined || applied.length === 0)
    return yield* failed("the database has no kiln schema yet, so there is nothing to back up")
  if (changed.length > 0) return yield* databaseProblem(settings.database, new SchemaMismatch({ changed }))
  const place = yield* records.readPlace
  if (place === undefined) return records
  const { found, isSame, recorded = "" } = comparePlaces(yield* records.findSecret(placeSecret), place)
  return isSame ? records : yield* copiedProblem(settings, new StoreCopied({ recorded, found }))
})

const load = Effect.tryPromise({
  try: async () => ({
    ...(await import("../backup/BackupDirectory.ts")),
    ...(await import("../backup/claimDirectory.ts")),
    ...(await import("../backup/takeBackup.ts")),
  }),
  catch: (cause) => failed(`cannot load the backup: ${String(cause)}`),
})

/** Refuses an empty directory that had the last backup: it is rather a disk that is not mounted than one that was cleared. */
const requireMounted = Effect.fnUntraced(function* (records: StoreInspection, directory: string) {
  if ((yield* records.migrations).pending.length > 0) return
  const last = yield* records.findLastChange("backup.create")
  const { listGenerations } = yield* load
  if (last?.subject !== directory || (yield* listGenerations(directory)).length > 0) return
  return yield* failed(
    `the last backup was written to ${directory}, which now contains none: check that its disk is mounted. To begin again there, add --start-over`,
  )
})

/** Refuses another blob store than that of the records: a backup without their files would replace those with them. */
const requireFiles = Effect.fnUntraced(function* (settings: Settings, records: StoreInspection) {
  if ((yield* records.migrations).pending.length > 0) return
  const standing = yield* compareBlobStore(records)
  const problems = installationProblems(settings)
  if (typeof standing === "string") return
  return yield* standing._tag === "ForeignBlobStore"
    ? problems.ForeignBlobStore(standing)
    : problems.UnmarkedBlobStore(standing)
})

/**
 * Records the backup in the audit log, where the doctor finds its age. Before an upgrade there may be pending migrations, which a
 * backup must not apply; it is whole without the record.
 */
const record = (settings: Settings, records: StoreInspection, directory: string, details: JsonObject) =>
  Effect.gen(function* () {
    if ((yield* records.migrations).pending.length > 0) return
    yield* Effect.provide(appendChange("backup.create", directory, details), openStoresBriefly(settings))
  }).pipe(
    Effect.catch((error) =>
      Effect.logWarning(`the backup is complete, but the audit log does not show it: ${error.message}`),
    ),
  )

/** The data directory, and the directory of the files. */
const directoriesOf = ({ blobs, dataDirectory }: Settings): ReadonlyArray<string> =>
  blobs._tag === "Directory" && blobs.path !== undefined ? [dataDirectory, blobs.path] : [dataDirectory]

export const backupCommand = Command.make("backup", flags, ({ directory: given, keep, startOver }) =>
  Effect.gen(function* () {
    const directory = resolve(given)
    const settings = yield* readEnvironment
    const { database } = settings
    if (keep < 1 || keep > mostKept) return yield* misused(`--keep must be from 1 to ${mostKept}`)
    if (database._tag !== "Sqlite")
      return yield* misused(
        "kiln backup is for SQLite. Back up Postgres with pg_dump or your server's own backups, and the files after it: docs/guides/backup.md describes how",
      )
    yield* requireDatabase(database)
    const { explainFullDisk, refuseOccupied, takeBackup } = yield* load
    const records = yield* openOriginal(settings)
    yield* refuseOccupied(directory, directoriesOf(settings))
    if (!startOver) yield* requireMounted(records, directory)
    const engine = engineSettings(yield* loadConfig(settings.configPath), settings.engine)
    const { blobs, counts, createdAt, name, removed } = yield* Effect.flatMap(BlobStore, (store) =>
      Effect.andThen(
        requireFiles(settings, records),
        takeBackup(
          { place: database, records, blobs: store, version, ownDirectories: directoriesOf(settings) },
          directory,
          keep,
        ).pipe(explainFullDisk(directory)),
      ),
    ).pipe(Effect.provide(layerBlobs(settings)), Effect.provideService(EngineConfig, engine))
    yield* record(settings, records, directory, {
      backup: name,
      files: blobs.listed.length,
      bytes: blobs.bytes,
    })
    yield* answer({
      json: {
        backup: name,
        created_at: createdAt,
        counts,
        files: blobs.listed.length,
        bytes: blobs.bytes,
        copied_files: blobs.copied,
        copied_bytes: blobs.copiedBytes,
        unusable_files: blobs.failed.map(({ named }) => named.blobKey),
        removed_backups: removed,
      },
      text: [
        `backup ${name}: ${counts.jobs} jobs, ${counts.charges} charges, ${blobs.listed.length} files (${sizeOf(blobs.bytes)}), ` +
          `of which ${blobs.copied} are new (${sizeOf(blobs.copiedBytes)})`,
        ...(removed.length === 0 ? [] : [`removed ${removed.join(", ")} (--keep ${keep})`]),
      ].join("\n"),
    })
    if (blobs.failed.length > 0)
      return yield* failed(
        `the backup is complete except for ${blobs.failed.length} files that are missing or damaged in the installation itself: run kiln doctor. Older backups are kept, because they may have these files`,
      )
  }).pipe(
    Effect.scoped,
    Effect.catchTags({
      StoreUnavailable: (error) =>
        Effect.flatMap(readEnvironment, ({ database }) => Effect.fail(databaseProblem(database, error.cause))),
      BlobUnavailable: (error) => Effect.fail(blobsUnusable(error)),
    }),
  ),
).pipe(
  Command.withDescription(
    "Back up the database (SQLite) and all files into a directory, also while servers run; copies only new files",
  ),
  Command.withExamples([{ command: "kiln backup /mnt/backup/kiln --keep 14", description: "Every night" }]),
)
