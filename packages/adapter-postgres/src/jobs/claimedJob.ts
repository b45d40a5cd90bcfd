import { type UploadId } from "@kiln/core/domain"
import { type Claim, UndecodableRow } from "@kiln/core/ports"
import type { claimedNumbers } from "../migrations/initial/claimedColumns.ts"
import type { RowOf } from "../Statement.ts"
import { type uploadById, uploadOf } from "../uploads/uploadRow.ts"
import { type jobByIdempotencyKey, jobOf } from "./jobRow.ts"

type JobRow = RowOf<typeof jobByIdempotencyKey>

/** What only some jobs have. */
interface Rest {
  readonly price: {
    readonly name: string
    readonly version: number
    readonly currency: string
    readonly unitAmounts: string
  } | null
  readonly uploadId: UploadId | null
  readonly upload: RowOf<typeof uploadById> | null
  readonly checkpoints: JobRow["checkpoints"] | null
}

/** A number for each item of a tuple. */
type NumberOfEach<Items> = { readonly [Index in keyof Items]: number }

/** A claimed job, as `claim_jobs` returns it. */
export interface ClaimedRow extends Pick<
  JobRow,
  "id" | "projectId" | "keyId" | "mode" | "kind" | "idempotencyKey" | "fingerprint" | "kept" | "request"
> {
  readonly numbers: NumberOfEach<typeof claimedNumbers>
  readonly rest: Rest | null
}

/** A claimed job and its place in the claim. */
export interface ClaimedJob {
  readonly laneId: number
  readonly place: number
  readonly job: Parameters<typeof jobOf>[0] & { readonly claimableAt: number }
  readonly upload: Rest["upload"]
}

export const claimedJobOf = (row: ClaimedRow): ClaimedJob => {
  const { numbers, rest } = row
  const [laneId, place, kindVersion, priority, createdAt, queueLimitMs, runLimitMs, token, ...times] = numbers
  const [claimableAt, deadlineAt, phaseStartedAt, ranMs, waitedMs, attempts, failures, lostWorkers] = times
  const job: ClaimedJob["job"] = {
    id: row.id,
    projectId: row.projectId,
    keyId: row.keyId,
    mode: row.mode,
    kind: row.kind,
    kindVersion,
    uploadId: rest?.uploadId ?? null,
    priority,
    kept: row.kept,
    idempotencyKey: row.idempotencyKey,
    fingerprint: row.fingerprint,
    createdAt,
    queueLimitMs,
    runLimitMs,
    status: "processing",
    token,
    held: true,
    claimableAt,
    deadlineAt,
    phaseStartedAt,
    ranMs,
    waitedMs,
    attempts,
    failures,
    lostWorkers,
    errorCode: null,
    finishedAt: null,
    retained: "kept",
    request: row.request,
    checkpoints: rest?.checkpoints ?? [],
    output: null,
    files: [],
    warningCode: null,
    charge: null,
    priceName: rest?.price?.name ?? null,
    priceVersion: rest?.price?.version ?? null,
    priceCurrency: rest?.price?.currency ?? null,
    priceUnitAmounts: rest?.price?.unitAmounts ?? null,
  }
  return { laneId, place, job, upload: rest?.upload ?? null }
}

/** Throws `UndecodableRow` where the row is damaged. */
export const claimOf = ({ job: row, upload }: ClaimedJob, now: number): Claim => {
  // The queue has an entry without a job's own row.
  if (row.kept === null) throw new UndecodableRow(`the row of ${row.id} is gone`)
  const job = jobOf(row)
  return { job, token: job.token, leaseRemainingMs: row.claimableAt - now, upload: upload && uploadOf(upload) }
}
