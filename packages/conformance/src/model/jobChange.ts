import { isFinished, type Job } from "@kiln/core/domain"
import { applyEvent, created, type TransitionEvent, jobTransitions } from "@kiln/core/rules"
import { illFormed } from "./illFormed.ts"
import { dataMismatch } from "./dataMismatch.ts"
import { differingField, jobDataFields, jobOriginFields, jobOwnFields, jobStateFields } from "./jobFields.ts"

/** `removed` is the end of the record; `retried` says that another job is made of this failed one, which took over its upload. */
export type JobMoveName = keyof typeof jobTransitions | "removed" | "retried"

/** The change that one store verb made to one job. */
export type JobChange =
  | { readonly _tag: "Unchanged" }
  /** Exactly one row of the table explains it, or it is a move of the record. */
  | { readonly _tag: "Moved"; readonly event: JobMoveName }
  | { readonly _tag: "Illegal"; readonly reason: string }

const unchanged: JobChange = { _tag: "Unchanged" }
const illegal = (reason: string): JobChange => ({ _tag: "Illegal", reason })

/**
 * Explains what one verb of a store made of one job at the store time `now` (unix milliseconds), by
 * the table of `JobTransition.ts` alone: `undefined` is a job that is not there. What the caller of
 * the verb chose (the length of a lease, a delay, an output) is read from `after`; everything else
 * must be as the table says.
 *
 * Two moves may look alike: a job released in the millisecond of its creation as one deferred by 0,
 * an overdue job that its worker fails for being late as one the sweep fails. With `verb`, the
 * method of the store that was called, only that verb's moves count.
 */
export const jobChange = (before: Job | undefined, after: Job | undefined, now: number, verb?: string): JobChange => {
  if (before === after) return unchanged
  if (after === undefined) return before === undefined ? unchanged : removal(before, verb)
  const malformed = illFormed(after)
  if (malformed !== undefined) return illegal(`${after.id}: ${malformed}`)
  if (before === undefined) return creation(after, now, verb)
  if (before.idempotencyKey !== after.idempotencyKey) return replacement(before, after, now, verb)
  if (before.priority !== after.priority) return reprioritized(before, after, now, verb)
  const origin = differingField(jobOriginFields, before, after)
  const moved = differingField(jobStateFields, before, after) ?? differingField(jobDataFields, before, after)
  if (origin !== undefined)
    return moved === undefined && isRetried(before, after) && isOf("retried", verb)
      ? { _tag: "Moved", event: "retried" }
      : illegal(`${before.id}: ${origin} never changes`)
  return moved === undefined ? unchanged : move(before, after, now, verb)
}

/** A later submission replaces the request of a waiting job. It always has another key. */
const replacement = (before: Job, after: Job, now: number, verb: string | undefined): JobChange => {
  const own = differingField(jobOwnFields, before, after)
  if (own !== undefined) return illegal(`${before.id}: ${own} never changes`)
  if (!isOf("replaced", verb)) return illegal(`${before.id}: ${verb ?? ""} replaces no request`)
  const at = after.claimableAt ?? now
  if (at < now && at !== before.claimableAt) return illegal(`${before.id}: a replaced request cannot start in the past`)
  const state = applyEvent(before, { event: "replaced", limits: after, at }, now)
  if (state === undefined) return illegal(`${before.id}: only a job that waits for its first attempt is replaced`)
  const wrong =
    differingField(jobStateFields, state, after) ??
    differingField(jobDataFields, { ...before, request: after.request }, after) ??
    (after.request === null ? "request" : undefined)
  return wrong === undefined
    ? { _tag: "Moved", event: "replaced" }
    : illegal(`${before.id}: no replaced job has this ${wrong}`)
}

/** Only a rescheduling changes the priority, of a job that waits, and its start at the same time or not. */
const reprioritized = (before: Job, after: Job, now: number, verb: string | undefined): JobChange => {
  if (isFinished(before) || before.held || !isOf("rescheduled", verb))
    return illegal(`${before.id}: priority changes only while the job waits`)
  const rest = jobChange({ ...before, priority: after.priority }, after, now, verb)
  return rest._tag === "Unchanged" ? { _tag: "Moved", event: "rescheduled" } : rest
}

const isRetried = (before: Job, after: Job): boolean =>
  before.status === "failed" &&
  before.retained === "kept" &&
  after.uploadId === null &&
  differingField(jobOriginFields, { ...before, uploadId: null }, after) === undefined

/** The verbs that may end the last child of a parked job, and the one that signals. */
const wakingVerbs: ReadonlySet<string> = new Set([
  "signalJobs",
  "completeJobs",
  "completeAndClaimJobs",
  "failJobs",
  "cancelJobs",
  "expireJobs",
  "claimJobs",
  "createAndClaimJobs",
])

const isOf = (event: JobMoveName, verb: string | undefined): boolean => {
  if (verb === undefined) return true
  if (event === "retried") return verb === "createJobs"
  if (event === "removed") return verb === "deleteJobs"
  if (event === "woken") return wakingVerbs.has(verb)
  // By age is a verb of its own, and the same row.
  return jobTransitions[event].verb === verb || (event === "erased" && verb === "expireData")
}

const removal = (before: Job, verb: string | undefined): JobChange =>
  !isFinished(before)
    ? illegal(`${before.id}: a ${before.status} job is gone`)
    : isOf("removed", verb)
      ? { _tag: "Moved", event: "removed" }
      : illegal(`${before.id}: ${verb ?? ""} removes no job`)

const creation = (after: Job, now: number, verb: string | undefined): JobChange => {
  const delayMs = Math.max(0, (after.claimableAt ?? now) - now)
  const wrong =
    differingField(jobStateFields, created(now, after, delayMs), after) ??
    (after.createdAt === now ? undefined : "createdAt") ??
    (Object.keys(after.checkpoints).length === 0 ? undefined : "checkpoints")
  if (wrong !== undefined) return illegal(`${after.id}: no job begins with this ${wrong}`)
  if (!isOf("created", verb)) return illegal(`${after.id}: ${verb ?? ""} creates no job`)
  return { _tag: "Moved", event: "created" }
}

const move = (before: Job, after: Job, now: number, verb: string | undefined): JobChange => {
  const refusals: Array<string> = []
  for (const event of candidates(before, after, now)) {
    const refusal = isOf(event.event, verb) ? mismatch(before, after, event, now) : `not by ${verb ?? ""}`
    if (refusal === undefined) return { _tag: "Moved", event: event.event }
    refusals.push(`${event.event}: ${refusal}`)
  }
  if (after.token < before.token) refusals.push("the token decreased")
  return illegal(
    `${before.id}: ${before.status} -> ${after.status} is not a move of the table (${refusals.join("; ")})`,
  )
}

/** The moves that lead from the one to something like the other, with what they carry read from there. */
const candidates = (before: Job, after: Job, now: number): ReadonlyArray<TransitionEvent> => {
  const { token } = before
  if (isFinished(before)) return [{ event: "erased" }]
  if (after.status === "done") return [{ event: "completed", token }]
  if (after.status === "failed") {
    const failed: TransitionEvent = { event: "failed", token, errorCode: after.errorCode ?? "internal_error" }
    return [{ event: "canceled" }, { event: "refused" }, { event: "abandoned" }, { event: "expired" }, failed]
  }
  // No caller chooses a lease or delay below 0; one that the run limit shortens gives the same result.
  const ms = Math.max(0, (after.claimableAt ?? now) - now)
  if (!after.held && after.token === token)
    return [
      { event: "woken" },
      { event: "rescheduled", at: after.claimableAt ?? now },
      { event: "postponed", since: after.phaseStartedAt ?? now },
    ]
  if (!after.held)
    return [
      ...((after.claimableAt ?? now) < now ? [] : [false, true]).map(
        (isCharged) => ({ event: "parked", token, until: after.claimableAt ?? now, isCharged }) as const,
      ),
      { event: "released", token, createdAt: before.createdAt },
      { event: "lost", createdAt: before.createdAt },
      { event: "deferred", token, delayMs: ms, countsAsFailure: after.failures !== before.failures },
    ]
  if (after.token !== token) return [{ event: "claimed", leaseDurationMs: ms }]
  return [
    { event: "checkpointed", token },
    { event: "extended", token, leaseDurationMs: ms },
  ]
}

const mismatch = (before: Job, after: Job, event: TransitionEvent, now: number): string | undefined => {
  const expected = applyEvent(before, event, now)
  if (expected === undefined) return "the guard of the table does not hold"
  const state = differingField(jobStateFields, expected, after)
  return state === undefined ? dataMismatch(before, after, event.event) : `${state} is wrong`
}
