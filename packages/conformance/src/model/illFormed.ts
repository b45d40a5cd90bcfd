import { errorMessageOf, isFinished, type Job } from "@kiln/core/domain"

/** Returns why a job is invalid in any store, regardless of its history; `undefined` if it is valid. */
export const illFormed = (job: Job): string | undefined =>
  illFormedState(job) ?? illFormedData(job) ?? (isFinished(job) ? illFormedEnd(job) : illFormedMiddle(job))

const illFormedState = (job: Job): string | undefined => {
  const { attempts, failures, lostWorkers, ranMs, status, token, waitedMs } = job
  if (job.held && status !== "processing") return "only a processing job is held"
  if ((job.errorCode !== null) !== (status === "failed")) return "only failed jobs have an error code"
  for (const count of [token, attempts, failures, lostWorkers, ranMs, waitedMs])
    if (!Number.isSafeInteger(count) || count < 0) return "counts and durations are whole and not negative"
  if (failures + lostWorkers > attempts) return "no attempt both failed and lost its worker"
  if (attempts > token) return "each claim raised the token"
  if (status === "queued" && (token > 0 || attempts > 0)) return "a claimed job is queued never again"
  if ((status === "processing" || status === "done") && attempts === 0) return "somebody claimed it"
  return undefined
}

const illFormedData = (job: Job): string | undefined => {
  const { mode, retained, status, warningCode } = job
  const told = status === "failed" && retained === "kept" && errorMessageOf(job) !== null
  if ((job.output !== null) !== ((status === "done" && retained === "kept") || told))
    return "output exactly while done and kept, or of a failed job that tells its caller something"
  if ((job.request !== null) !== (retained === "kept")) return "the request stays exactly as long as the data"
  if ((job.charge !== null) !== (mode === "live" && status === "done")) return "a charge exactly for done live jobs"
  if (mode === "sandbox" && job.price !== null) return "a sandbox job has no price"
  if (job.files.length > 0 && job.output === null) return "files are part of the output"
  if ((warningCode === "data_deleted") !== (retained === "deleted")) return "`data_deleted` exactly after a deletion"
  if ((warningCode === "data_expired") !== (retained === "expired")) return "`data_expired` exactly after expiry by age"
  return undefined
}

const illFormedEnd = (job: Job): string | undefined => {
  if (job.claimableAt !== null || job.deadlineAt !== null || job.phaseStartedAt !== null)
    return "a finished job has no times to come"
  if (job.finishedAt === null) return "a finished job says when it ended"
  if (Object.keys(job.checkpoints).length > 0) return "a finished job keeps no checkpoints"
  // Before it may begin a job neither waits nor runs, so they may add up to less.
  if (job.ranMs + job.waitedMs > job.finishedAt - job.createdAt)
    return "waiting and running are no longer than its life"
  return undefined
}

const illFormedMiddle = (job: Job): string | undefined => {
  if (job.claimableAt === null || job.deadlineAt === null || job.phaseStartedAt === null)
    return "an unfinished job has times to come"
  if (job.finishedAt !== null) return "an unfinished job has not ended"
  if (job.retained !== "kept") return "an unfinished job keeps its data"
  if (job.warningCode !== null) return "nothing is said of an unfinished job"
  if (job.held && job.claimableAt > job.deadlineAt) return "no lease reaches past the deadline"
  if (job.ranMs + job.waitedMs > job.phaseStartedAt - job.createdAt)
    return "waiting and running are no longer than its life so far"
  if (job.status === "queued" && job.phaseStartedAt !== job.claimableAt)
    return "a queued job waits from when it may begin"
  return undefined
}
