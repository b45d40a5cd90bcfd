import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import {
  type BlobUnavailable,
  idBody,
  idTime,
  isPromised,
  type JobId,
  ownerOfBlob,
  type UploadId,
} from "../../domain/index.ts"
import { vouchesForAbsence, vouchesForTokens } from "../../domain/BlobLineage.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { BlobStore, JobStore, type Orphan, UploadStore } from "../../ports/index.ts"
import { type ReadLineage, requireCurrent } from "../../installation/lineage.ts"

/** Number of blobs per query. */
const batchSize = 500
/** Number of blobs whose sizes are read concurrently. */
const sizesAtOnce = 8
/** A sweep that would remove more than this share of all blobs removes none, unless it is forced. */
const maxShare = 0.1
/** A sweep may always remove this many, so that a small installation can be cleaned up. */
const alwaysAllowed = 100

/** The verbs that a survey needs. */
export type OrphanRecords = Pick<JobStore["Service"], "findOrphans" | "readLineage"> &
  Pick<UploadStore["Service"], "findUploadOrphans">

/** The blobs that a sweep would remove or keep. */
export interface OrphanSurvey {
  /** Number of all blobs of jobs and uploads. */
  readonly blobs: number
  /** Keys of the blobs that a sweep removes. */
  readonly removable: ReadonlyArray<string>
  /** Their total size. Blobs whose size cannot be read count as 0. */
  readonly bytes: number
  /** Number of orphans that are kept because their record is missing, or older than the blob. */
  readonly kept: { readonly unknown: number; readonly ahead: number }
  /** Whether they are more than 10 % of all blobs and more than 100. A sweep then removes none of them unless it is forced. */
  readonly exceedsShare: boolean
}

const bytesOf = (key: string) =>
  Effect.flatMap(BlobStore, (blobs) => blobs.open(key)).pipe(
    Effect.map(({ bytes }) => bytes),
    Effect.orElseSucceed(() => 0),
  )

/** Returns whether an orphan may be removed: a record says so, or the store is certain that its record does not exist. */
const isRemovable = ({ blobKey, reason }: Orphan, { lineage, newestId }: ReadLineage, graceMs: number): boolean => {
  if (reason === "ahead") return false
  const owner = ownerOfBlob(blobKey)
  const body = owner && idBody(owner._tag === "Job" ? owner.jobId : owner.uploadId)
  const madeAt = body === undefined ? undefined : idTime(body)
  // The record of a job whose id was told before may be younger than any backup since.
  if (reason === "unknown" && body !== undefined && isPromised(body)) return false
  if (reason === "spent") return madeAt !== undefined && vouchesForTokens(lineage, madeAt, graceMs)
  const newestAt = newestId === null ? undefined : idTime(newestId)
  return madeAt !== undefined && vouchesForAbsence(lineage, { madeAt, newestAt, graceMs })
}

const findAmong = Effect.fnUntraced(function* (records: OrphanRecords, keys: ReadonlyArray<string>) {
  const ofJobs: Array<{ blobKey: string; jobId: JobId; token: number }> = []
  const ofUploads: Array<{ blobKey: string; uploadId: UploadId; token: number }> = []
  for (const blobKey of keys) {
    const owner = ownerOfBlob(blobKey)
    if (owner?._tag === "Job") ofJobs.push({ blobKey, jobId: owner.jobId, token: owner.token })
    if (owner?._tag === "Upload") ofUploads.push({ blobKey, uploadId: owner.uploadId, token: owner.token })
  }
  return [...(yield* records.findOrphans(ofJobs)), ...(yield* records.findUploadOrphans(ofUploads))]
})

/** Finds all blobs that are not needed. Changes nothing. Fails if the store is behind the blobs. */
export const surveyOrphans = Effect.fnUntraced(function* (records: OrphanRecords) {
  const { orphanGraceMs } = yield* EngineConfig
  const store = yield* BlobStore
  const read = yield* requireCurrent(records)
  const removable: Array<string> = []
  const kept = { unknown: 0, ahead: 0 }
  let blobs = 0
  for (const root of ["jobs", "uploads"])
    yield* store.list(root).pipe(
      Stream.grouped(batchSize),
      Stream.runForEach((keys) =>
        Effect.map(findAmong(records, keys), (orphans) => {
          blobs += keys.length
          for (const orphan of orphans)
            if (isRemovable(orphan, read, orphanGraceMs)) removable.push(orphan.blobKey)
            else kept[orphan.reason === "ahead" ? "ahead" : "unknown"] += 1
        }),
      ),
    )
  const sizes = yield* Effect.forEach(removable, bytesOf, { concurrency: sizesAtOnce })
  return {
    blobs,
    removable,
    bytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
    kept,
    exceedsShare: removable.length > Math.max(alwaysAllowed, maxShare * blobs),
  } satisfies OrphanSurvey
})

/** The result of a sweep. */
export interface OrphanSweep extends OrphanSurvey {
  /** Number of removed blobs; 0 if the sweep exceeded the limit or found nothing. */
  readonly removed: number
}

const notRemoved = (error: BlobUnavailable) =>
  Effect.as(Effect.logWarning("could not remove some blobs; trying again later", error.cause), 0)

const report = ({ blobs, bytes, exceedsShare, kept, removable, removed }: OrphanSweep): Effect.Effect<void> => {
  const found = { orphans: removable.length, bytes, blobs, kept_unknown: kept.unknown, kept_ahead: kept.ahead }
  if (exceedsShare && removed === 0)
    return Effect.logError(
      `the sweep for orphaned blobs would remove ${removable.length} of ${blobs} (${bytes} bytes), more than 10 %: nothing was removed; ` +
        "check that this is the right database, then run kiln blobs sweep --force",
    ).pipe(Effect.annotateLogs(found))
  return removed === 0
    ? Effect.void
    : Effect.logInfo(`removed ${removed} orphaned blobs of ${blobs} (${bytes} bytes)`).pipe(Effect.annotateLogs(found))
}

/**
 * Removes blobs that no record can need any more, such as those of crashed attempts and transfers. A blob whose record is missing
 * is removed only if the store is certain that the record does not exist (`vouchesForAbsence`). `force` lifts the limit of 10 %.
 */
export const sweepOrphans = Effect.fnUntraced(function* (options: { readonly force: boolean }) {
  const blobs = yield* BlobStore
  const { findOrphans, readLineage } = yield* JobStore
  const { findUploadOrphans } = yield* UploadStore
  const records = { findOrphans, findUploadOrphans, readLineage }
  const survey = yield* surveyOrphans(records)
  let removed = 0
  if (survey.removable.length > 0 && (options.force || !survey.exceedsShare)) {
    // The survey may have taken long.
    yield* requireCurrent(records)
    for (const key of survey.removable)
      removed += yield* Effect.catchTag(Effect.as(blobs.remove(key), 1), "BlobUnavailable", notRemoved)
  }
  const sweep: OrphanSweep = { ...survey, removed }
  yield* report(sweep)
  return sweep
})

/** The sweep that every process runs. Returns how many blobs it removed. */
export const collectOrphans = Effect.map(sweepOrphans({ force: false }), ({ removed }) => removed)
