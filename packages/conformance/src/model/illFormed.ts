import { errorMessageOf, isFinished, type Job } from "@kiln/core/domain"

/** Returns why a job is invalid in any store, regardless of its history; `undefined` if it is valid. */
export const illFormed = (job: Job): string | undefined =>
  illFormedState(job) ?? illFormedData(job) ?? (isFinished(job) ? illFormedEnd(job) : illFormedMiddle(job))

const illFormedState = (job: Job): string | undefined => {
  const { attempts, failures, lostWorkers, ranMs, status, token, waitedMs } = job
  if (job.held && status !== "processing") return "only a processing job may be held"
  if ((job.errorCode !== null) !== (status === "failed"))
    return "a job must have an error code if and only if it failed"
  for (const count of [token, attempts, failures, lostWorkers, ranMs, waitedMs])
    if (!Number.isSafeInteger(count) || count < 0) return "counts and durations must be non-negative integers"
  if (failures + lostWorkers > attempts) return "failures and lost workers must not exceed attempts"
  if (attempts > token) return "the token must be at least the number of attempts"
  if (status === "queued" && (token > 0 || attempts > 0)) return "a claimed job must not return to `queued`"
  if (status === "done" && attempts === 0) return "a done job must have an attempt"
  // The attempt that parked the job does not count.
  if (status === "processing" && attempts === 0 && (job.held || token < 2))
    return "a processing job must have an attempt or be parked"
  return undefined
}

const illFormedData = (job: Job): string | undefined => {
  const { mode, retained, status, warningCode } = job
  const told = status === "failed" && retained === "kept" && errorMessageOf(job) !== null
  if ((job.output !== null) !== ((status === "done" && retained === "kept") || told))
    return "a job must have output if and only if its data is kept and it is done, or failed with a message for its caller"
  if ((job.request !== null) !== (retained === "kept"))
    return "a job must have its request if and only if its data is kept"
  if ((job.charge !== null) !== (mode === "live" && status === "done"))
    return "a job must have a charge if and only if it is live and done"
  if (mode === "sandbox" && job.price !== null) return "a sandbox job must not have a price"
  if (job.files.length > 0 && job.output === null) return "a job without output must not have files"
  if ((warningCode === "data_deleted") !== (retained === "deleted"))
    return "a job must have the warning `data_deleted` if and only if its data was deleted"
  if ((warningCode === "data_expired") !== (retained === "expired"))
    return "a job must have the warning `data_expired` if and only if its data expired"
  return undefined
}

const illFormedEnd = (job: Job): string | undefined => {
  if (job.claimableAt !== null || job.deadlineAt !== null || job.phaseStartedAt !== null)
    return "a finished job must not have `claimableAt`, `deadlineAt` or `phaseStartedAt`"
  if (job.finishedAt === null) return "a finished job must have `finishedAt`"
  if ((job.status === "done" || job.retained !== "kept") && Object.keys(job.checkpoints).length > 0)
    return "a job that is done or has lost its data must not have checkpoints"
  // Before it may begin a job neither waits nor runs, so they may add up to less.
  if (job.ranMs + job.waitedMs > job.finishedAt - job.createdAt)
    return "waiting and running times must not exceed the job's lifetime"
  return undefined
}

const illFormedMiddle = (job: Job): string | undefined => {
  if (job.claimableAt === null || job.deadlineAt === null || job.phaseStartedAt === null)
    return "an unfinished job must have `claimableAt`, `deadlineAt` and `phaseStartedAt`"
  if (job.finishedAt !== null) return "an unfinished job must not have `finishedAt`"
  if (job.retained !== "kept") return "an unfinished job must keep its data"
  if (job.warningCode !== null) return "an unfinished job must not have a warning"
  if (job.held && job.claimableAt > job.deadlineAt) return "a lease must not extend past the deadline"
  if (job.ranMs + job.waitedMs > job.phaseStartedAt - job.createdAt)
    return "waiting and running times must not exceed the time since the job's creation"
  if (job.status === "queued" && job.phaseStartedAt !== job.claimableAt)
    return "a queued job must wait from its `claimableAt`"
  return undefined
}
