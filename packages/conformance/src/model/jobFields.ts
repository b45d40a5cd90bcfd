import type { Job, JobOrigin, JobState } from "@kiln/core/domain"

// As records, so that a field that is added to the domain must be added here.
const originFields: Record<keyof JobOrigin, true> = {
  id: true,
  projectId: true,
  keyId: true,
  mode: true,
  kind: true,
  kindVersion: true,
  uploadId: true,
  priority: true,
  idempotencyKey: true,
  fingerprint: true,
  price: true,
  metadata: true,
  createdAt: true,
}
const stateFields: Record<keyof JobState, true> = {
  queueLimitMs: true,
  runLimitMs: true,
  status: true,
  token: true,
  held: true,
  claimableAt: true,
  deadlineAt: true,
  phaseStartedAt: true,
  ranMs: true,
  waitedMs: true,
  attempts: true,
  failures: true,
  lostWorkers: true,
  errorCode: true,
  finishedAt: true,
}
const dataFields: Record<Exclude<keyof Job, keyof JobOrigin | keyof JobState>, true> = {
  retained: true,
  request: true,
  checkpoints: true,
  output: true,
  files: true,
  warningCode: true,
  charge: true,
}

/** Fields of the request, which change only with another request, except for an upload that a retry takes over and the priority. */
export const jobOriginFields = Object.keys(originFields) as ReadonlyArray<keyof typeof originFields>

const ownFields = new Set<keyof JobOrigin>(["id", "projectId", "keyId", "mode", "kind", "createdAt"])
/** Fields that stay when a job gets another request. */
export const jobOwnFields = jobOriginFields.filter((field) => ownFields.has(field))
/** Fields that transitions change, according to the table. */
export const jobStateFields = Object.keys(stateFields) as ReadonlyArray<keyof typeof stateFields>
/** Retained data, warning and charge of a job. */
export const jobDataFields = Object.keys(dataFields) as ReadonlyArray<keyof typeof dataFields>

/** The part of a job that transitions change. */
export const stateOf = (job: JobState): JobState => ({
  queueLimitMs: job.queueLimitMs,
  runLimitMs: job.runLimitMs,
  status: job.status,
  token: job.token,
  held: job.held,
  claimableAt: job.claimableAt,
  deadlineAt: job.deadlineAt,
  phaseStartedAt: job.phaseStartedAt,
  ranMs: job.ranMs,
  waitedMs: job.waitedMs,
  attempts: job.attempts,
  failures: job.failures,
  lostWorkers: job.lostWorkers,
  errorCode: job.errorCode,
  finishedAt: job.finishedAt,
})

/** The first of these fields in which the two differ. */
export const differingField = <K extends PropertyKey>(
  fields: ReadonlyArray<K>,
  a: { readonly [P in K]?: unknown },
  b: { readonly [P in K]?: unknown },
): K | undefined => fields.find((field) => a[field] !== b[field] && !sameValue(a[field], b[field]))

/** Structural equality of plain data: whatever jobs hold. An absent property is not one that is `undefined`. */
export const sameValue = (a: unknown, b: unknown): boolean => {
  if (Object.is(a, b)) return true
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>]
  return keys.every((key) => Object.hasOwn(right, key) && sameValue(left[key], right[key]))
}
