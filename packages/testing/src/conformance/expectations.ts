import { expect } from "@effect/vitest"
import { applyEvent, isFinished, type Job, type JobEvent, type JobState } from "@kiln/core/domain"

/** The part of a job that transitions change. */
export const stateOf = (job: Job): JobState => ({
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

/** That the store moved the job exactly as the table says. */
export const expectMoved = (before: Job, event: JobEvent, now: number, after: Job): void => {
  const expected = applyEvent(stateOf(before), event, now)
  expect(expected, "the table allows the move").toBeDefined()
  expect(stateOf(after)).toEqual(expected)
  // What the caller asked for never changes.
  for (const part of [
    "id",
    "projectId",
    "keyId",
    "mode",
    "kind",
    "uploadId",
    "idempotencyKey",
    "fingerprint",
    "price",
    "createdAt",
  ] as const)
    expect(after[part]).toEqual(before[part])
}

/** What holds for every job at every time. */
export const expectWellFormed = (job: Job): void => {
  const { status, retained } = job
  expect(job.held && status !== "processing", "only a processing job is held").toBe(false)
  expect(job.errorCode !== null, "failed and only failed jobs say why").toBe(status === "failed")
  expect(job.output !== null, "output exactly while done and kept").toBe(status === "done" && retained === "kept")
  expect(job.request !== null, "the request stays exactly as long as the data").toBe(retained === "kept")
  expect(job.charge !== null, "a charge exactly for done live jobs").toBe(job.mode === "live" && status === "done")
  for (const time of [job.claimableAt, job.deadlineAt, job.phaseStartedAt])
    expect(time === null, "a finished job has no times to come").toBe(isFinished(job))
  expect(job.finishedAt !== null).toBe(isFinished(job))
  if (isFinished(job)) {
    expect(job.checkpoints).toEqual({})
    expect(job.ranMs + job.waitedMs, "waiting and running add up to its life").toBe(
      (job.finishedAt ?? 0) - job.createdAt,
    )
  } else {
    expect(retained).toBe("kept")
    expect(job.files).toEqual([])
  }
}
