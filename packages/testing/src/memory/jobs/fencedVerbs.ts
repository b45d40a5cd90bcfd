import { isFinished, type Job, type JobId } from "@kiln/core/domain"
import {
  applyEvent,
  areJobs,
  type ClaimEnd,
  canonicalJson,
  deferralEvent,
  failedAttempt,
  failedOutput,
  holdsClaim,
  isParked,
  isRepeatedEnd,
  maxAttemptRecords,
  maxSignals,
  refusedJob,
  type ParkedOn,
  rescheduling,
  type TransitionEvent,
  withinReservation,
  withWait,
} from "@kiln/core/rules"
import type {
  Checkpoint,
  ClaimRef,
  RescheduleOutcome,
  Rescheduling,
  Completion,
  Deferral,
  ExtendOutcome,
  Extension,
  Failure,
  FencedOutcome,
  NewJob,
  SignalOutcome,
  SignalRequest,
} from "@kiln/core/ports"
import { createJobs } from "./createJobs.ts"
import { countAwaited, entryOf, keep, type MemoryState, putJob, wake } from "../MemoryState.ts"

/**
 * Applies an event to the job of a claim, with other changes. Returns `undefined`, and writes nothing, if the claim does not hold
 * the job.
 */
const write = (
  state: MemoryState,
  claim: ClaimRef,
  event: (job: Job) => TransitionEvent,
  now: number,
  changes: (job: Job) => Partial<Job> = () => ({}),
): Job | undefined => {
  const job = state.jobs.get(claim.jobId)
  if (job === undefined) return undefined
  const next = applyEvent(job, event(job), now)
  if (next === undefined) return undefined
  const written = putJob(state, { ...job, ...next, ...changes(job) })
  enterCharge(state, written)
  return written
}

/** Writes the ledger entry of a job, once. */
const enterCharge = (state: MemoryState, job: Job): void => {
  if (job.charge === null || job.finishedAt === null || state.charges.has(job.id)) return
  state.charges.set(job.id, keep(entryOf(job, job.charge, Math.max(job.finishedAt, state.ledgerClosedUntil))))
}

const outcome = (written: Job | undefined): FencedOutcome => (written === undefined ? "LeaseLost" : "Written")

/** Ends a claim. A repeat returns `Written` without writing again. */
const end = (
  state: MemoryState,
  claim: ClaimRef,
  event: (job: Job) => ClaimEnd,
  now: number,
  changes?: (job: Job) => Partial<Job>,
): FencedOutcome => {
  const job = state.jobs.get(claim.jobId)
  if (job !== undefined && isRepeatedEnd(job, event(job))) return "Written"
  return outcome(write(state, claim, event, now, changes))
}

/** Ends the claim of an attempt without a result, and keeps the attempt's record. */
const endFailed = (
  state: MemoryState,
  item: ClaimRef & Pick<Deferral, "record" | "wait">,
  event: ClaimEnd,
  now: number,
  changes?: () => Partial<Job>,
): FencedOutcome => {
  const held = state.jobs.get(item.jobId)?.token === item.token
  const ended = end(state, item, () => event, now, changes)
  const job = state.jobs.get(item.jobId)
  if (!held || ended !== "Written" || job === undefined) return ended
  if (item.wait !== undefined)
    state.waits.set(job.id, keep(withWait(state.waits.get(job.id) ?? [], item.wait, job.attempts, now)))
  if (item.record === undefined) return ended
  const attempts = [...(state.attempts.get(job.id) ?? []), keep(failedAttempt(item.record, job.attempts, now))]
  state.attempts.set(job.id, Object.freeze(attempts.slice(-maxAttemptRecords)))
  return ended
}

export const extendLeases = (
  state: MemoryState,
  items: ReadonlyArray<Extension>,
  now: number,
): ReadonlyArray<ExtendOutcome> =>
  items.map((item) => {
    const job = write(
      state,
      item,
      () => ({ event: "extended", token: item.token, leaseDurationMs: item.leaseDurationMs }),
      now,
    )
    return job === undefined
      ? { _tag: "LeaseLost" }
      : // Past the run limit, no lease can be granted.
        { _tag: "Extended", leaseRemainingMs: Math.max(0, (job.claimableAt ?? now) - now) }
  })

export const checkpointJobs = (
  state: MemoryState,
  items: ReadonlyArray<Checkpoint>,
  now: number,
): ReadonlyArray<FencedOutcome> =>
  items.map((item) =>
    outcome(
      write(
        state,
        item,
        () => ({ event: "checkpointed", token: item.token }),
        now,
        (job) => ({
          checkpoints: keep({ ...job.checkpoints, [item.step]: item.value }),
        }),
      ),
    ),
  )

export const completeJobs = (
  state: MemoryState,
  items: ReadonlyArray<Completion>,
  now: number,
): ReadonlyArray<FencedOutcome> => {
  // Checked before anything is written, so that a defect does not leave half a batch.
  for (const item of items) {
    const job = state.jobs.get(item.jobId)
    if (job !== undefined && holdsClaim(job, item.token) && (job.mode === "live") !== (item.charge !== null))
      throw new TypeError(
        `a ${job.mode} job must complete ${job.mode === "live" ? "with" : "without"} a charge: ${job.id}`,
      )
  }
  return items.map((item) => {
    const job = state.jobs.get(item.jobId)
    const isFirst = job !== undefined && holdsClaim(job, item.token)
    const ended = end(
      state,
      item,
      () => ({ event: "completed", token: item.token }),
      now,
      () => ({
        output: keep(item.output),
        files: keep(item.files),
        warningCode: item.warningCode,
        charge: item.charge === null ? null : keep(withinReservation(item.charge, state.reservations.get(item.jobId))),
      }),
    )
    if (isFirst) createFollowUps(state, item.followUps ?? [], now)
    return ended
  })
}

/** Creates jobs with the completion of another one. A job that would be refused is created as failed. */
const createFollowUps = (state: MemoryState, items: ReadonlyArray<NewJob>, now: number): void => {
  for (const item of items) {
    const [created] = createJobs(state, [item], now)
    const refused = created && refusedJob(item, created)
    if (refused === undefined) continue
    createJobs(state, [refused.item], now)
    const job = state.jobs.get(item.id)
    const failed = job && applyEvent(job, { event: "refused" }, now)
    if (job === undefined || failed === undefined) throw new TypeError(`${item.id} cannot be created as failed`)
    putJob(state, { ...job, ...failed, output: keep(refused.output) })
  }
}

export const failJobs = (
  state: MemoryState,
  items: ReadonlyArray<Failure>,
  now: number,
): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { errorCode, message, token } = item
    const told = message === undefined ? undefined : () => ({ output: keep(failedOutput(message)) })
    return endFailed(state, item, { event: "failed", token, errorCode }, now, told)
  })

const hasCome = (state: MemoryState, jobId: JobId, on: ParkedOn): boolean =>
  areJobs(on)
    ? countAwaited(state, jobId, on) === 0
    : on.reason === "signal" && Object.hasOwn(state.signals.get(jobId) ?? {}, on.subject)

export const deferJobs = (
  state: MemoryState,
  items: ReadonlyArray<Deferral>,
  now: number,
): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { jobId, park, token } = item
    const event = deferralEvent(item, now, (on) => hasCome(state, jobId, on))
    if (park === undefined) return endFailed(state, item, event, now)
    const ended = write(state, item, () => event, now)
    if (ended === undefined) return end(state, item, () => event, now)
    const { reason, subject } = park
    const unfinished = countAwaited(state, jobId, park)
    state.parked.set(jobId, Object.freeze({ reason, subject, unfinished, token: token + 1, parkedAt: now }))
    return "Written"
  })

export const releaseJobs = (
  state: MemoryState,
  items: ReadonlyArray<ClaimRef>,
  now: number,
): ReadonlyArray<FencedOutcome> =>
  items.map((item) =>
    end(state, item, (job) => ({ event: "released", token: item.token, createdAt: job.createdAt }), now),
  )

const isOf = (owner: SignalRequest["owner"], job: Job): boolean =>
  owner === undefined ||
  (owner.projectId === job.projectId &&
    (owner.keyId ?? job.keyId) === job.keyId &&
    (owner.mode ?? job.mode) === job.mode)

/** A finished job recognizes a repeat as long as its data is kept. */
export const signalJobs = (
  state: MemoryState,
  items: ReadonlyArray<SignalRequest>,
  now: number,
): ReadonlyArray<SignalOutcome> =>
  items.map(({ jobId, name, owner, value }) => {
    const job = state.jobs.get(jobId)
    if (job === undefined || !isOf(owner, job)) return "NotFound"
    const signals = state.signals.get(jobId) ?? {}
    const first = Object.hasOwn(signals, name) ? signals[name] : undefined
    if (first !== undefined) return canonicalJson(first.value) === canonicalJson(value) ? "Repeated" : "Superseded"
    if (isFinished(job)) return "Finished"
    if (Object.keys(signals).length >= maxSignals) return "Full"
    state.signals.set(jobId, keep({ ...signals, [name]: { name, value, at: now } }))
    wake(state, jobId, { reason: "signal", subject: name }, now)
    return "Accepted"
  })

/** Changes when waiting jobs may be claimed, and their priority. */
export const rescheduleJobs = (
  state: MemoryState,
  items: ReadonlyArray<Rescheduling>,
  now: number,
): ReadonlyArray<RescheduleOutcome> =>
  items.map((item) => {
    const job = state.jobs.get(item.jobId)
    if (job === undefined) return "NotFound"
    const decided = rescheduling(job, isParked(state.parked.get(job.id), job), item, now)
    if (typeof decided === "string") return decided
    putJob(state, { ...job, ...decided.state, priority: decided.priority })
    return "Rescheduled"
  })
