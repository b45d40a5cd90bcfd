import {
  type Charge,
  type Job,
  type JobId,
  type JobMode,
  type JobState,
  type JsonObject,
  type PolledJob,
  type PriceSnapshot,
  type Priority,
  priorityOfRank,
  progressIn,
} from "@kiln/core/domain"
import { decodeAmounts, decodeJson, decodeObject, UndecodableRow } from "./storedJson.ts"

/** The columns of a job besides its state, as both databases select them. A request is `null` once it is erased; a sandbox job has no price. */
interface StoredJob extends Pick<
  Job,
  | "id"
  | "projectId"
  | "keyId"
  | "mode"
  | "kind"
  | "kindVersion"
  | "uploadId"
  | "idempotencyKey"
  | "fingerprint"
  | "createdAt"
  | "retained"
  | "warningCode"
> {
  readonly priority: number
  readonly kept: string
  readonly request: string | null
  readonly output: string | null
  readonly charge: string | null
  readonly priceName: string | null
  readonly priceVersion: number | null
  readonly priceCurrency: string | null
  readonly priceUnitAmounts: string | null
}

/** Returns the state of a row. */
export const decodeState = (
  row: Omit<JobState, "held" | "errorCode" | "finishedAt">,
  held: boolean,
  errorCode: JobState["errorCode"],
  finishedAt: number | null,
): JobState => ({
  queueLimitMs: row.queueLimitMs,
  runLimitMs: row.runLimitMs,
  status: row.status,
  token: row.token,
  held,
  claimableAt: row.claimableAt,
  deadlineAt: row.deadlineAt,
  phaseStartedAt: row.phaseStartedAt,
  ranMs: row.ranMs,
  waitedMs: row.waitedMs,
  attempts: row.attempts,
  failures: row.failures,
  lostWorkers: row.lostWorkers,
  errorCode,
  finishedAt,
})

/** Decodes a job. Throws `UndecodableRow` if the row is damaged. */
export const decodeJob = (
  row: StoredJob,
  state: Omit<JobState, "held">,
  held: boolean,
  files: Job["files"],
  checkpoints: Job["checkpoints"],
): Job => {
  const { id } = row
  if ((row.retained === "kept") !== (row.request !== null)) throw new UndecodableRow(`${id} has lost its data`)
  return {
    id,
    projectId: row.projectId,
    keyId: row.keyId,
    mode: row.mode,
    kind: row.kind,
    kindVersion: row.kindVersion,
    uploadId: row.uploadId,
    priority: decodePriority(row.priority, id),
    idempotencyKey: row.idempotencyKey,
    fingerprint: row.fingerprint,
    price: priceOf(row),
    metadata: decodeObject(row.kept, `the kept fields of ${id}`),
    createdAt: row.createdAt,
    queueLimitMs: state.queueLimitMs,
    runLimitMs: state.runLimitMs,
    status: state.status,
    token: state.token,
    held,
    claimableAt: state.claimableAt,
    deadlineAt: state.deadlineAt,
    phaseStartedAt: state.phaseStartedAt,
    ranMs: state.ranMs,
    waitedMs: state.waitedMs,
    attempts: state.attempts,
    failures: state.failures,
    lostWorkers: state.lostWorkers,
    errorCode: state.errorCode,
    finishedAt: state.finishedAt,
    retained: row.retained,
    request: decodePart(row.request, "request", id),
    checkpoints,
    output: decodePart(row.output, "output", id),
    files,
    warningCode: row.warningCode,
    charge: decodeCharge(row.charge, id),
  }
}

interface PolledRow extends Pick<PolledJob, "kind" | "status" | "retained" | "errorCode" | "warningCode"> {
  readonly output: string | null
  readonly charge: string | null
  readonly currency: string | null
  readonly progress: string | null
  readonly attempts: number
}

/** Decodes the parts of a job that a poll shows. Throws `UndecodableRow` if the row is damaged. */
export const decodePolled = (row: PolledRow, id: JobId, mode: JobMode, files: PolledJob["files"]): PolledJob => ({
  id,
  kind: row.kind,
  mode,
  status: row.status,
  retained: row.retained,
  output: decodePart(row.output, "output", id),
  errorCode: row.errorCode,
  warningCode: row.warningCode,
  charge: decodeCharge(row.charge, id),
  price: row.currency === null ? null : { currency: row.currency },
  progress: row.progress === null ? null : progressIn(decodeJson(row.progress, `the progress of ${id}`), row.attempts),
  files,
})

/** Returns the priority of a rank, which is how rows store it. */
export const decodePriority = (rank: number, id: JobId): Priority => {
  const priority = priorityOfRank(rank)
  if (priority === undefined) throw new UndecodableRow(`${id} has an invalid priority`)
  return priority
}

export const decodeCheckpoints = (
  id: JobId,
  rows: ReadonlyArray<{ readonly step: string; readonly value: string }>,
): Job["checkpoints"] =>
  Object.fromEntries(rows.map(({ step, value }) => [step, decodeJson(value, `a checkpoint of ${id}`)]))

/** Decodes a JSON column of a job. */
const decodePart = (text: string | null, column: "request" | "output", id: JobId): JsonObject | null =>
  text === null ? null : decodeObject(text, `the ${column} of ${id}`)

const priceOf = (row: StoredJob): PriceSnapshot | null => {
  const { priceName: name, priceVersion: version, priceCurrency: currency, priceUnitAmounts: unitAmounts } = row
  if (name === null || version === null || currency === null || unitAmounts === null) return null
  return { name, version, currency, unitAmounts: decodeAmounts(unitAmounts, `price ${name} ${version}`) }
}

const decodeCharge = (text: string | null, id: JobId): Charge | null =>
  text === null ? null : (decodeObject(text, `the charge of ${id}`) as JsonObject & Charge)
