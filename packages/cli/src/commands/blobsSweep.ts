import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { JobStore, UploadStore } from "@kiln/core/ports"
import { BlobGuard, type OrphanSurvey, surveyOrphans, sweepOrphans } from "@kiln/core/worker"
import { failed } from "../CommandFailed.ts"
import { claimBlobStore } from "../installation/claimBlobStore.ts"
import { describeOrphans } from "../orphans.ts"
import { answer } from "../Output.ts"
import { appendChange } from "../recordChange.ts"
import { withBlobs } from "../withBlobs.ts"

const flags = {
  dryRun: Flag.Boolean("dry-run").pipe(
    Flag.withDescription("Show what would be removed, without removing anything"),
    Flag.withDefault(false),
  ),
  force: Flag.Boolean("force").pipe(
    Flag.withDescription("Remove orphans even if they are more than 10 % of all files"),
    Flag.withDefault(false),
  ),
}

const survey = Effect.gen(function* () {
  const { findOrphans, readLineage } = yield* JobStore
  const { findUploadOrphans } = yield* UploadStore
  return yield* surveyOrphans({ findOrphans, findUploadOrphans, readLineage })
})

/** Records the start first, so that files that another copy of the database may have written are kept. */
const sweep = (force: boolean) =>
  Effect.gen(function* () {
    yield* (yield* BlobGuard).join
    const { bytes, exceedsShare, removable } = yield* survey
    if (removable.length > 0 && (force || !exceedsShare))
      yield* appendChange("blobs.sweep", null, { orphans: removable.length, bytes, force })
    return yield* sweepOrphans({ force })
  })

const documentOf = ({ blobs, bytes, exceedsShare, kept, removable }: OrphanSurvey) => ({
  blobs,
  orphans: removable.length,
  bytes,
  kept_unknown: kept.unknown,
  kept_ahead: kept.ahead,
  exceeds_share: exceedsShare,
})

export const blobsSweepCommand = Command.make("sweep", flags, ({ dryRun, force }) =>
  withBlobs(() =>
    Effect.gen(function* () {
      yield* claimBlobStore
      const found = dryRun ? { ...(yield* survey), removed: 0 } : yield* sweep(force)
      const refused = found.exceedsShare && !force && !dryRun
      yield* answer({
        json: { dry_run: dryRun, ...documentOf(found), removed: found.removed, refused },
        text: [describeOrphans(found), dryRun ? "nothing was removed (--dry-run)" : `${found.removed} removed`].join(
          "\n",
        ),
      })
      if (refused)
        return yield* failed(
          "nothing was removed, because this many orphans may mean that this is the wrong database; to remove them anyway, run kiln blobs sweep --force",
        )
    }),
  ),
).pipe(Command.withDescription("Remove files that belong to no job or upload; every server also does this hourly"))
