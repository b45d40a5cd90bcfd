import type { Job, JobId, JobMode, ProjectId, UploadId } from "@kiln/core/domain"
import type { Claim } from "@kiln/core/ports"
import {
  decodeAmounts,
  decodeCheckpoints,
  decodeObject,
  decodePriority,
  UndecodableRow,
  type UploadRow,
} from "@kiln/sql-store"
import type { claimedColumns } from "../migrations/initial/claimedColumns.ts"
import { uploadOf } from "../uploads.ts"
import type { JobRow } from "./jobRow.ts"

type Column = keyof typeof claimedColumns

/** A job's own row, which is missing if it is damaged. */
type Texts = Pick<JobRow, "keyId" | "idempotencyKey" | "fingerprint"> & {
  readonly kept: string | null
  readonly request: string | null
}

type Value<Name extends Column> = Name extends "id" ? JobId : Name extends keyof Texts ? Texts[Name] : number

/** Claimed jobs, as `take_jobs_in_turn` returns them: a value of each job in each column. */
export type ClaimedColumns = { readonly [Name in Column]: ReadonlyArray<Value<Name>> }

/** The columns that are set for few jobs: an earlier attempt, a price, an upload, or checkpoints. */
export interface Rest {
  readonly id: JobId
  readonly phaseStartedAt: number
  readonly ranMs: number
  readonly attempts: number
  readonly failures: number
  readonly lostWorkers: number
  readonly price: {
    readonly name: string
    readonly version: number
    readonly currency: string
    readonly unitAmounts: string
  } | null
  readonly uploadId: UploadId | null
  readonly upload: UploadRow | null
  readonly checkpoints: JobRow["checkpoints"] | null
}

/** The columns that are equal for all jobs of a lane. */
export interface LaneOfJobs {
  readonly id: number
  readonly projectId: ProjectId
  readonly kind: string
  readonly kindVersion: number
  readonly mode: JobMode
}

/** A claimed job: its index in the columns, and what else was read. Without a rest, it was claimed for the first time. */
export interface ClaimedJob {
  readonly columns: ClaimedColumns
  readonly index: number
  readonly id: JobId
  readonly token: number
  readonly claimableAt: number
  readonly lane: LaneOfJobs
  readonly rest: Rest | undefined
}

/** Returns the jobs of the columns. */
export const claimedJobsOf = (
  columns: ClaimedColumns,
  rests: ReadonlyArray<Rest>,
  lanes: ReadonlyMap<number, LaneOfJobs>,
): ReadonlyArray<ClaimedJob> => {
  const restOf = new Map(rests.map((rest) => [rest.id, rest]))
  return columns.id.map((id, index) => {
    const lane = lanes.get(at(columns.laneId, index))
    if (lane === undefined) throw new TypeError(`the lane of ${id} is gone`)
    return {
      columns,
      index,
      id,
      token: at(columns.token, index),
      claimableAt: at(columns.claimableAt, index),
      lane,
      rest: restOf.get(id),
    }
  })
}

const at = <Item>(column: ReadonlyArray<Item>, index: number): Item => {
  if (index >= column.length) throw new TypeError("take_jobs_in_turn returned columns of different lengths")
  return column[index] as Item
}

/** Throws `UndecodableRow` where the row is damaged. */
export const claimOf = (claimed: ClaimedJob, now: number): Claim => ({
  job: jobOf(claimed, now),
  token: claimed.token,
  leaseRemainingMs: claimed.claimableAt - now,
  upload: claimed.rest?.upload == null ? null : uploadOf(claimed.rest.upload),
})

const jobOf = ({ claimableAt, columns, id, index, lane, rest, token }: ClaimedJob, now: number): Job => {
  const kept = at(columns.kept, index)
  const request = at(columns.request, index)
  // The queue has an entry without a job's own row, or without its data.
  if (kept === null || request === null) throw new UndecodableRow(`${id} has lost its row or its data`)
  if (rest === undefined && token > 1) throw new TypeError(`take_jobs_in_turn returned ${id} without its past`)
  return {
    id,
    projectId: lane.projectId,
    keyId: at(columns.keyId, index),
    mode: lane.mode,
    kind: lane.kind,
    kindVersion: lane.kindVersion,
    uploadId: rest?.uploadId ?? null,
    priority: decodePriority(at(columns.priority, index), id),
    metadata: decodeObject(kept, `the kept fields of ${id}`),
    idempotencyKey: at(columns.idempotencyKey, index),
    fingerprint: at(columns.fingerprint, index),
    price: priceOf(rest),
    createdAt: at(columns.createdAt, index),
    queueLimitMs: at(columns.queueLimitMs, index),
    runLimitMs: at(columns.runLimitMs, index),
    status: "processing",
    token,
    held: true,
    claimableAt,
    deadlineAt: at(columns.deadlineAt, index),
    phaseStartedAt: rest?.phaseStartedAt ?? now,
    ranMs: rest?.ranMs ?? 0,
    waitedMs: at(columns.waitedMs, index),
    attempts: rest?.attempts ?? 1,
    failures: rest?.failures ?? 0,
    lostWorkers: rest?.lostWorkers ?? 0,
    errorCode: null,
    finishedAt: null,
    retained: "kept",
    request: decodeObject(request, `the request of ${id}`),
    checkpoints: rest?.checkpoints == null ? {} : decodeCheckpoints(id, rest.checkpoints),
    output: null,
    files: [],
    warningCode: null,
    charge: null,
  }
}

const priceOf = (rest: Rest | undefined): Job["price"] => {
  if (rest?.price == null) return null
  const { currency, name, unitAmounts, version } = rest.price
  return { name, version, currency, unitAmounts: decodeAmounts(unitAmounts, `price ${name} ${version}`) }
}
