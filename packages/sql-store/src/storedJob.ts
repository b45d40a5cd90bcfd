import type {
  Charge,
  Job,
  JobId,
  JobMode,
  JobState,
  Json,
  JsonObject,
  KeyLimits,
  LineItem,
  PolledJob,
  PriceSnapshot,
  Priority,
  WorkerScope,
} from "@kiln/core/domain"
import { priorityOfRank, progressIn, type SharedBucket } from "@kiln/core/rules"
import type { ProviderStanding } from "@kiln/core/ports"
import type { submittedNames, Values } from "./columns.ts"

/*
 * For stores that keep parts of their records as JSON text. The text was written by a store of the same type, so only its outline is checked. A record with damaged text is unreadable; the others are not affected.
 */

/** A row with damaged JSON. Only that record is unreadable. */
export class UndecodableRow extends Error {
  override readonly name = "UndecodableRow"
}

/** Parses a JSON object. Messages name the record, never its content. */
export const decodeObject = (text: string, record: string): JsonObject => {
  const value = decodeJson(text, record)
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new UndecodableRow(`${record} is not an object`)
  return value as JsonObject
}

/** Parses an object of strings: the amounts of a price, by meter. */
export const decodeAmounts = (text: string, record: string): Readonly<Record<string, string>> => {
  const value = decodeObject(text, record)
  if (!Object.values(value).every((part) => typeof part === "string"))
    throw new UndecodableRow(`${record} is not an object of strings`)
  return value as Readonly<Record<string, string>>
}

export const decodeStrings = (text: string, record: string): ReadonlyArray<string> => {
  const value = decodeJson(text, record)
  if (!Array.isArray(value) || !value.every((part) => typeof part === "string"))
    throw new UndecodableRow(`${record} is not a list of strings`)
  return value
}

const decodeObjects = (text: string, record: string): ReadonlyArray<JsonObject> => {
  const value = decodeJson(text, record)
  const isObject = (part: Json): part is JsonObject => typeof part === "object" && part !== null && !Array.isArray(part)
  if (!Array.isArray(value) || !value.every(isObject)) throw new UndecodableRow(`${record} is not a list of objects`)
  return value
}

export const decodeLineItems = (text: string, record: string): ReadonlyArray<LineItem> =>
  decodeObjects(text, record) as ReadonlyArray<JsonObject & LineItem>

/** Parses the state of a worker's providers. */
export const decodeStandings = (text: string, record: string): ReadonlyArray<ProviderStanding> =>
  decodeObjects(text, record) as ReadonlyArray<JsonObject & ProviderStanding>

export const encodeScope = (scope: WorkerScope | undefined): string | null =>
  scope === undefined ? null : JSON.stringify(scope)

/** Parses the scope of a worker, as a field of its publication. `null` means that it did not tell. */
export const decodeScope = (text: string | null, record: string): { readonly scope?: WorkerScope } =>
  text === null ? {} : { scope: decodeObject(text, record) as JsonObject & WorkerScope }

/** Parses the limits of a key. `null` means that it has none of its own. */
export const decodeLimits = (text: string | null, record: string): KeyLimits =>
  text === null ? {} : decodeObject(text, record)

export const encodeLimits = (limits: KeyLimits): string | null =>
  Object.keys(limits).length === 0 ? null : JSON.stringify(limits)

/** Parses a bucket that processes share. */
export const decodeBucket = (text: string, record: string): SharedBucket => {
  const value = decodeObject(text, record) as JsonObject & Partial<SharedBucket>
  const { at, level, portions } = value
  if (!Number.isSafeInteger(at) || !Number.isSafeInteger(level) || typeof portions !== "object")
    throw new UndecodableRow(`${record} is not a bucket`)
  return value as JsonObject & SharedBucket
}

export const decodeJson = (text: string, record: string): Json => {
  try {
    return JSON.parse(text) as Json
  } catch {
    throw new UndecodableRow(`${record} is not JSON`)
  }
}

/** Returns the kept fields of a job in a list. A damaged record is listed without them, because an operator must find it. */
export const listedMetadata = (kept: string): JsonObject => {
  try {
    return decodeObject(kept, "the kept fields of a job")
  } catch (error) {
    if (error instanceof UndecodableRow) return {}
    throw error
  }
}

/** The columns of a job besides its state, as both databases select them. A request is `null` once it is erased; a sandbox job has no price. */
interface StoredJob
  extends Values<"jobs", "id" | "created_at" | (typeof submittedNames)[number]>, Pick<Job, "retained" | "warningCode"> {
  readonly request: string | null
  readonly output: string | null
  readonly charge: string | null
  readonly priceName: string | null
  readonly priceVersion: number | null
  readonly priceCurrency: string | null
  readonly priceUnitAmounts: string | null
}

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

const decodePart = (text: string | null, column: "request" | "output", id: JobId): JsonObject | null =>
  text === null ? null : decodeObject(text, `the ${column} of ${id}`)

const priceOf = (row: StoredJob): PriceSnapshot | null => {
  const { priceName: name, priceVersion: version, priceCurrency: currency, priceUnitAmounts: unitAmounts } = row
  if (name === null || version === null || currency === null || unitAmounts === null) return null
  return { name, version, currency, unitAmounts: decodeAmounts(unitAmounts, `price ${name} ${version}`) }
}

const decodeCharge = (text: string | null, id: JobId): Charge | null =>
  text === null ? null : (decodeObject(text, `the charge of ${id}`) as JsonObject & Charge)
