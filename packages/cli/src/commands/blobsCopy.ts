import { existsSync } from "node:fs"
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { BlobStore, JobStore } from "@kiln/core/ports"
import { publishNewest, requireCurrent, requireOriginal } from "@kiln/core/worker"
import { copyFiles, type CopiedFiles, emptyStore, naming, unchanged } from "../blobs/copyFiles.ts"
import { causeMessage, type CommandFailed, failed, misused } from "../CommandFailed.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { counted } from "../doctor/Check.ts"
import { ForeignBlobStore, installation, writeMarker } from "../installation/claimBlobStore.ts"
import { realPathOf } from "../installation/findInstallation.ts"
import { installationProblems } from "../installation/layerInstallation.ts"
import { foreignMarkers, readMarkers } from "../installation/markers.ts"
import { describeBlobs, layerBlobs } from "../layerBlobs.ts"
import { answer, sizeOf } from "../Output.ts"
import { appendChange } from "../recordChange.ts"
import type { Settings } from "../Settings.ts"
import { type BlobPlace, blobPlace } from "../settings/blobPlace.ts"
import { withSettings } from "../withStores.ts"

const flags = {
  from: Flag.String("from").pipe(
    Flag.withMetavar("BLOBS"),
    Flag.withDescription("The blob store that has the files, as in KILN_BLOBS"),
  ),
  to: Flag.String("to").pipe(
    Flag.withMetavar("BLOBS"),
    Flag.withDescription("The blob store to copy them to, as in KILN_BLOBS"),
  ),
  dryRun: Flag.Boolean("dry-run").pipe(
    Flag.withDescription("Show what would be copied, without changing anything"),
    Flag.withDefault(false),
  ),
  force: Flag.Boolean("force").pipe(
    Flag.withDescription("Let kiln start on the new store although files are missing or damaged in the old one"),
    Flag.withDefault(false),
  ),
}

/** A blob store that a flag names. */
interface Place {
  readonly flag: string
  readonly text: string
  readonly settings: Settings
}

const read = Effect.fnUntraced(function* (flag: string, text: string, settings: Settings) {
  const place = blobPlace(text)
  if (!place.ok) return yield* misused(`${flag} ${place.rule}`)
  if (place.value._tag === "Postgres" && settings.database._tag !== "Postgres")
    return yield* misused(`${flag} can be postgres only with DATABASE_URL=postgres://…`)
  return { flag, text, settings: { ...settings, blobs: place.value } } satisfies Place
})

const directoryOf = ({ blobs, dataDirectory }: Settings): string | undefined =>
  blobs._tag === "Directory" ? (blobs.path ?? dataDirectory) : undefined

/** Two texts may name one store. */
const identityOf = (settings: Settings): string => {
  const { blobs } = settings
  const directory = directoryOf(settings)
  if (directory !== undefined) return `file:${realPathOf(directory)}`
  const identity: Partial<BlobPlace> & object = blobs._tag === "S3" ? { ...blobs, style: undefined } : blobs
  return JSON.stringify(identity)
}

const hasFiles = (directory: string): boolean => existsSync(join(directory, "blobs"))

const open = ({ flag, settings, text }: Place) =>
  Effect.map(Layer.build(Layer.fresh(layerBlobs(settings, flag))), (built) =>
    naming(`${flag} ${text}`, Context.get(built, BlobStore)),
  )

/** Refuses a store that another installation has marked. Returns whether this one has. */
const requireOwn = Effect.fnUntraced(function* (blobs: BlobStore["Service"], id: string, { settings }: Place) {
  const markers = yield* Effect.provideService(readMarkers, BlobStore, blobs)
  const foreign = foreignMarkers(id, markers)
  if (foreign.length > 0)
    return yield* installationProblems(settings).ForeignBlobStore(
      new ForeignBlobStore({ installationId: id, markers: foreign }),
    )
  return markers.length > 0
})

/** Opens the new store. A dry run creates no directory. */
const openTarget = (to: Place, dryRun: boolean) => {
  const directory = directoryOf(to.settings)
  return dryRun && directory !== undefined && !hasFiles(directory) ? Effect.succeed(emptyStore) : open(to)
}

interface Summary {
  readonly copies: CopiedFiles
  readonly dryRun: boolean
  readonly isMarked: boolean
  readonly to: Place
}

const documentOf = ({ copies, dryRun, isMarked }: Summary) => ({
  dry_run: dryRun,
  files: copies.files,
  bytes: copies.bytes,
  copied_files: copies.copied,
  copied_bytes: copies.copiedBytes,
  failed_files: copies.failed,
  missing_files: copies.missing,
  damaged_files: copies.damaged,
  usable: isMarked,
})

const textOf = ({ copies, dryRun, isMarked, to }: Summary): string =>
  [
    dryRun
      ? `${copies.copied} of ${counted(copies.files, "file")} would be copied (${sizeOf(copies.copiedBytes)})`
      : `${to.text} has ${counted(copies.files, "file")} (${sizeOf(copies.bytes)}), of which ${copies.copied} are new (${sizeOf(copies.copiedBytes)})`,
    ...(dryRun ? ["nothing was copied (--dry-run)"] : []),
    ...(isMarked && !dryRun
      ? [
          "Files that kiln stores from now on are not there yet. To change over, stop every kiln process, run this command again, " +
            `set KILN_BLOBS='${to.text}' for all processes and commands, and start them.`,
        ]
      : []),
  ].join("\n")

const unusable = ({ copies: { damaged, failed: count, missing }, dryRun, isMarked }: Summary): CommandFailed => {
  const example = missing[0] ?? damaged[0] ?? ""
  return failed(
    `${counted(count, "file")} that the database names ${count === 1 ? "is" : "are"} missing or damaged in the old store, such as ${example}: ` +
      "check --from and run kiln doctor. " +
      (isMarked || dryRun
        ? "All others are there"
        : "All others were copied, but kiln does not start on the new store yet. If these files are lost, add --force"),
  )
}

/** Copies, and marks the new store once it has every file: kiln does not start on a store without its marker. */
const copy = Effect.fnUntraced(function* (from: Place, to: Place, options: { dryRun: boolean; force: boolean }) {
  const { dryRun, force } = options
  const records = yield* (yield* storeMaintenance(to.settings.database)).inspect
  if (records === undefined) return yield* failed("the database has vanished")
  const { id } = yield* installation
  const source = yield* open(from)
  yield* requireOwn(source, id, from)
  const target = yield* openTarget(to, dryRun)
  const wasMarked = yield* requireOwn(target, id, to)
  const onTarget = Effect.provideService(BlobStore, target)
  // From before the copy. If the new store lacks a newer entry when kiln starts on it, kiln warns that files may be missing.
  const { lineage } = yield* onTarget(requireCurrent(yield* JobStore)).pipe(
    Effect.catchTag("StoreBehindBlobs", installationProblems(to.settings).StoreBehindBlobs),
  )
  const copies = yield* copyFiles(records, source, dryRun ? unchanged(target) : target)
  const isComplete = copies.failed === 0 || force
  if (isComplete && !dryRun) {
    yield* onTarget(publishNewest(lineage))
    if (!wasMarked) yield* writeMarker(target, id)
    const { copied: files, copiedBytes: bytes, failed: lost } = copies
    if (files > 0 || !wasMarked) yield* appendChange("blobs.copy", describeBlobs(to.settings), { files, bytes, lost })
  }
  const summary: Summary = { copies, dryRun, isMarked: wasMarked || (isComplete && !dryRun), to }
  yield* answer({ json: documentOf(summary), text: textOf(summary) })
  if (!isComplete) return yield* unusable(summary)
})

export const blobsCopyCommand = Command.make("copy", flags, ({ dryRun, force, ...texts }) =>
  withSettings((settings) =>
    Effect.gen(function* () {
      const from = yield* read("--from", texts.from, settings)
      const to = yield* read("--to", texts.to, settings)
      if (identityOf(from.settings) === identityOf(to.settings))
        return yield* misused("--from and --to name the same blob store")
      const directory = directoryOf(from.settings)
      if (directory !== undefined && !hasFiles(directory))
        return yield* failed(`--from ${from.text}: there are no files of kiln in ${directory}`)
      yield* requireOriginal
      yield* copy(from, to, { dryRun, force })
    }).pipe(
      Effect.scoped,
      Effect.catchTags({
        StoreCopied: installationProblems(settings).StoreCopied,
        BlobUnavailable: (error) => Effect.fail(failed(causeMessage(error.cause))),
      }),
    ),
  ),
).pipe(
  Command.withDescription(
    "Copy all files to another blob store, also while servers run. Can be repeated: files that are there are not copied again",
  ),
  Command.withExamples([
    { command: "kiln blobs copy --from file: --to 's3://example-files/kiln?region=eu-central-1'" },
    { command: "kiln blobs copy --from postgres --to file:/srv/kiln-files --dry-run" },
  ]),
)
