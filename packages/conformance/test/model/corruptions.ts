import type { Job } from "@kiln/core/domain"
import { charge, digest, jobId, keyId, outputFile, projectId, uploadId } from "../../src/fixtures.ts"
import type { JobMoveName } from "../../src/model/jobChange.ts"

type Corruption<K extends keyof Job> = (job: Job) => ReadonlyArray<Job[K]>

const around = (n: number | null): ReadonlyArray<number> => (n === null ? [0, 7] : [n - 1_000, n - 1, n + 1, n + 1_000])
const orNull = (n: number | null): ReadonlyArray<number | null> => (n === null ? [0, 7] : [null, ...around(n)])

/** For each field, values that the job does not have. */
export const corruptions: { readonly [K in keyof Job]: Corruption<K> } = {
  id: () => [jobId(2)],
  projectId: () => [projectId(2)],
  keyId: () => [keyId(2)],
  mode: (job) => [job.mode === "live" ? "sandbox" : "live"],
  kind: () => ["transcription"],
  kindVersion: () => [2],
  uploadId: (job) => (job.uploadId === null ? [uploadId(1)] : [uploadId(2), null]),
  priority: () => ["high"],
  idempotencyKey: () => ["other"],
  fingerprint: () => [digest(2)],
  price: (job) => [job.price === null ? { name: "x", version: 1, currency: "usd", unitAmounts: {} } : null],
  metadata: () => [{}, { model: "large" }],
  createdAt: (job) => around(job.createdAt),
  queueLimitMs: (job) => around(job.queueLimitMs),
  runLimitMs: (job) => around(job.runLimitMs),
  status: (job) => (["queued", "processing", "done", "failed"] as const).filter((status) => status !== job.status),
  token: (job) => around(job.token),
  held: (job) => [!job.held],
  claimableAt: (job) => orNull(job.claimableAt),
  deadlineAt: (job) => orNull(job.deadlineAt),
  phaseStartedAt: (job) => orNull(job.phaseStartedAt),
  ranMs: (job) => around(job.ranMs),
  waitedMs: (job) => around(job.waitedMs),
  attempts: (job) => around(job.attempts),
  failures: (job) => around(job.failures),
  lostWorkers: (job) => around(job.lostWorkers),
  errorCode: (job) => (job.errorCode === null ? ["internal_error"] : [null]),
  finishedAt: (job) => orNull(job.finishedAt),
  retained: (job) => (["kept", "deleted", "expired"] as const).filter((retained) => retained !== job.retained),
  request: (job) => (job.request === null ? [{}] : [null, { input: "another text" }]),
  checkpoints: (job) => [{ ...job.checkpoints, one: 1, two: 2 }],
  output: (job) => (job.output === null ? [{}] : [null, { text: "another" }]),
  files: (job) => [[...job.files, outputFile({ job: { id: jobId(2) }, token: job.token }, 2)]],
  warningCode: (job) =>
    ([null, "output_truncated", "data_expired", "data_deleted"] as const).filter((code) => code !== job.warningCode),
  charge: (job) => (job.charge === null ? [charge] : [null, { ...charge, amount: "9" }]),
}

/** What the caller of the verb chose, so that another value is as good. */
const chosen: { readonly [E in JobMoveName]?: ReadonlyArray<keyof Job> } = {
  created: [
    ...(["id", "projectId", "keyId", "kind", "kindVersion", "uploadId", "idempotencyKey", "fingerprint"] as const),
    ...(["mode", "price", "priority", "metadata", "runLimitMs", "request"] as const),
  ],
  replaced: [
    ...(["kindVersion", "uploadId", "priority", "idempotencyKey", "fingerprint", "metadata", "price"] as const),
    ...(["runLimitMs", "request"] as const),
  ],
  completed: ["output", "charge", "warningCode"],
}

/** Whether this other value of one field might as well have come from the same verb. */
export const isAlsoLegal = (
  { before, event, now }: { readonly before: Job | undefined; readonly event: JobMoveName; readonly now: number },
  corrupted: Job,
  field: keyof Job,
): boolean => {
  if (chosen[event]?.includes(field) === true) return isChoosable(corrupted, event, field)
  // A rescheduling may change both.
  if (event === "rescheduled" && field === "priority") return true
  if (event === "deferred" && field === "claimableAt") return (corrupted.claimableAt ?? -1) >= now
  // A deferral and a parking whose time is charged differ in nothing else.
  if ((event === "deferred" || event === "parked" || event === "released") && field === "attempts")
    return (
      corrupted.failures === before?.failures &&
      (corrupted.claimableAt ?? -1) >= now &&
      (corrupted.attempts === before.attempts || corrupted.attempts === before.attempts - 1)
    )
  if (event === "parked" && field === "claimableAt")
    return (corrupted.claimableAt ?? -1) >= now && corrupted.phaseStartedAt === now
  if (event === "deferred" && field === "failures")
    return corrupted.failures === before?.failures || corrupted.failures - 1 === before?.failures
  // A lease of another length, whose deadline is by chance the same.
  if ((event === "claimed" || event === "extended") && field === "claimableAt" && corrupted.claimableAt !== null)
    return (
      corrupted.claimableAt === corrupted.deadlineAt ||
      corrupted.claimableAt + Math.max(0, corrupted.queueLimitMs - corrupted.waitedMs) === corrupted.deadlineAt
    )
  return false
}

/** Even what is chosen is bound to the rest of the job. */
const isChoosable = (corrupted: Job, event: JobMoveName, field: keyof Job): boolean => {
  if (field === "request" || field === "output" || field === "charge") return corrupted[field] !== null
  if (event === "created" || event === "replaced") return corrupted.mode === "live" || corrupted.price === null
  return corrupted.warningCode === null || !corrupted.warningCode.startsWith("data_")
}
