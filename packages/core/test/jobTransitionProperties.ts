import { expect } from "vitest"
import fc from "fast-check"
import { isFinished, type JobState, type JobStatus } from "@kiln/core/domain"
import type { TransitionEvent } from "@kiln/core/rules"
import type { JobEventName } from "../src/domain/JobTransition.ts"
import type { JobLimits } from "../src/domain/JobState.ts"

/** The functions under examination. */
export interface Transitions {
  readonly applyEvent: (job: JobState, event: TransitionEvent, now: number) => JobState | undefined
  readonly created: (now: number, limits: JobLimits, delayMs?: number) => JobState
  readonly jobTransitions: Readonly<
    Record<
      JobEventName,
      {
        readonly from: ReadonlyArray<string>
        readonly to: string
        readonly guard: string
        readonly token: string
      }
    >
  >
}

const BORN = 10_000

/** How time moves before an event: freely, or to within a millisecond of a relevant instant. */
type Wait = { readonly ms: number } | { readonly to: "claimableAt" | "deadlineAt"; readonly delta: number }
const waits: fc.Arbitrary<Wait> = fc.oneof(
  fc.constantFrom(0, 1, 50, 999, 1_000, 7_000).map((ms) => ({ ms })),
  fc.record({ to: fc.constantFrom("claimableAt" as const, "deadlineAt" as const), delta: fc.constantFrom(-1, 0, 1) }),
)

const leaseDurationMs = fc.constantFrom(1, 400, 1_000, 5_000)
/** Relative to the job's present token: mostly the holder's. */
const staleness = fc.constantFrom(0, 0, 0, 0, -1, -2, 1)

type EventAt = (job: JobState, now: number) => TransitionEvent
const events: fc.Arbitrary<EventAt> = fc.oneof(
  {
    weight: 4,
    arbitrary: leaseDurationMs.map((ms): EventAt => () => ({ event: "claimed", leaseDurationMs: ms })),
  },
  fc.constant<EventAt>(() => ({ event: "abandoned" })),
  fc.tuple(staleness, leaseDurationMs).map(([stale, ms]): EventAt => (job) => ({
    event: "extended",
    token: job.token + stale,
    leaseDurationMs: ms,
  })),
  staleness.map((stale): EventAt => (job) => ({ event: "checkpointed", token: job.token + stale })),
  staleness.map((stale): EventAt => (job) => ({ event: "completed", token: job.token + stale })),
  staleness.map((stale): EventAt => (job) => ({
    event: "failed",
    token: job.token + stale,
    errorCode: "internal_error",
  })),
  {
    weight: 2,
    arbitrary: fc
      .tuple(staleness, fc.constantFrom(0, 1, 3_000), fc.boolean())
      .map(([stale, delayMs, countsAsFailure]): EventAt => (job) => ({
        event: "deferred",
        token: job.token + stale,
        delayMs,
        countsAsFailure,
      })),
  },
  {
    weight: 2,
    arbitrary: staleness.map((stale): EventAt => (job) => ({
      event: "released",
      token: job.token + stale,
      createdAt: BORN,
    })),
  },
  fc
    .tuple(staleness, fc.constantFrom(0, 1, 3_000, 90_000), fc.boolean())
    .map(([stale, ms, isCharged]): EventAt => (job, now) => ({
      event: "parked",
      token: job.token + stale,
      until: now + ms,
      isCharged,
    })),
  fc.constant<EventAt>(() => ({ event: "woken" })),
  fc.constantFrom(0, 0, 1, 3_000).map((ms): EventAt => (_, now) => ({ event: "rescheduled", at: now + ms })),
  fc
    .tuple(fc.constantFrom(0, 1, 3_000, undefined), fc.constantFrom(1_000, 5_000), fc.constantFrom(900, 60_000))
    .map(([ms, queueLimitMs, runLimitMs]): EventAt => (job, now) => ({
      event: "replaced",
      limits: { queueLimitMs, runLimitMs },
      // One that is claimable already may stay so.
      at: ms === undefined ? Math.min(now, job.claimableAt ?? now) : now + ms,
    })),
  fc.constantFrom(0, 0, 1, 3_000).map((ms): EventAt => (_, now) => ({ event: "postponed", since: now - ms })),
  fc.constant<EventAt>(() => ({ event: "expired" })),
  fc.constant<EventAt>(() => ({ event: "lost", createdAt: BORN })),
  fc.constant<EventAt>(() => ({ event: "erased" })),
  fc.constant<EventAt>(() => ({ event: "canceled" })),
  fc.constant<EventAt>(() => ({ event: "refused" })),
)

const limits = fc.record({
  queueLimitMs: fc.constantFrom(1, 1_000, 5_000, 60_000),
  runLimitMs: fc.constantFrom(1, 900, 3_000, 60_000),
})

/** Delay of a job in milliseconds; most jobs have none. */
const delays = fc.constantFrom(0, 0, 0, 700)

/** An event that was tried, legal or not. `after` is `undefined` where it was refused. */
interface Step {
  /** When the job was to begin. */
  readonly startsAt: number
  readonly before: JobState
  readonly event: TransitionEvent
  readonly now: number
  readonly after: JobState | undefined
}

const holdsForAllSteps = (transitions: Transitions, check: (step: Step, steps: ReadonlyArray<Step>) => void): void => {
  const histories = fc.array(fc.tuple(waits, events), { maxLength: 30, size: "max" })
  fc.assert(
    fc.property(limits, delays, histories, (jobLimits, delayMs, history) => {
      const steps: Array<Step> = []
      let now = BORN
      let job = transitions.created(now, jobLimits, delayMs)
      for (const [wait, eventAt] of history) {
        now = Math.max(now, "ms" in wait ? now + wait.ms : (job[wait.to] ?? now) + wait.delta)
        const event = eventAt(job, now)
        const after = transitions.applyEvent(job, event, now)
        const step = { startsAt: BORN + delayMs, before: job, event, now, after }
        check(step, steps)
        steps.push(step)
        job = after ?? job
      }
    }),
    { numRuns: 2_000, seed: 1 },
  )
}

/** The time between the end of a lease and its detection: the job was held, but it is unknown whether a worker ran it. */
const unnoticedMs = (steps: ReadonlyArray<Step>): number =>
  steps.reduce((sum, { after, before, now }) => {
    if (after === undefined || !before.held || after.phaseStartedAt === before.phaseStartedAt) return sum
    return sum + Math.max(0, now - Math.max(before.claimableAt ?? now, before.phaseStartedAt ?? now))
  }, 0)

/**
 * The time that is neither waiting nor running, until the end of the job's last phase: its delay, and that for which it was parked or
 * set to start later.
 */
const pausedMs = (steps: ReadonlyArray<Step>): number => {
  let sum = 0
  let pause: { readonly at: number; readonly until: number } | undefined = {
    at: BORN,
    until: steps[0]?.startsAt ?? BORN,
  }
  for (const { after, event, now } of steps) {
    if (after === undefined) continue
    if (pause !== undefined) sum += Math.min(now, pause.until) - pause.at
    if (event.event === "replaced" || event.event === "postponed") sum = 0
    if (event.event === "rescheduled" || event.event === "replaced")
      pause = event.at < now ? undefined : { at: now, until: event.at }
    else pause = event.event === "parked" && !event.isCharged ? { at: now, until: event.until } : undefined
  }
  return sum + (pause === undefined ? 0 : pause.until - pause.at)
}

/** When the job began to wait for its present request, or its last prerequisite finished. */
const begunAt = (steps: ReadonlyArray<Step>): number => {
  const anew = steps.findLast(({ after, event }) => /^(replaced|postponed)$/.test(event.event) && after !== undefined)
  if (anew?.event.event === "replaced") return Math.min(anew.now, anew.event.at)
  return anew?.event.event === "postponed" ? anew.event.since : BORN
}

const progress: ReadonlyArray<JobStatus> = ["queued", "processing", "done"]
/** `done` and `failed` are equally far. */
const rank = (status: JobStatus): number => progress.indexOf(status === "failed" ? "done" : status)

/** The guards, restated independently of the code. */
const guardHolds = (guard: string, { before: job, event, now }: Step): boolean => {
  switch (guard) {
    case "fence":
      return "token" in event && job.status === "processing" && job.held && event.token === job.token
    case "claimable":
      return (
        job.claimableAt !== null &&
        job.deadlineAt !== null &&
        job.claimableAt <= now &&
        now < job.deadlineAt &&
        (event.event === "claimed" || job.held || job.lostWorkers > 0)
      )
    case "overdue":
      return (
        job.deadlineAt !== null &&
        now >= job.deadlineAt &&
        (!job.held || job.claimableAt === job.deadlineAt) &&
        (event.event !== "postponed" || now < event.since + job.queueLimitMs)
      )
    case "lost":
      return job.deadlineAt !== null && now >= job.deadlineAt && job.held && job.claimableAt !== job.deadlineAt
    case "pending":
      return !job.held && job.deadlineAt !== null && now < job.deadlineAt
    case "waiting":
      return !job.held && job.claimableAt !== null && job.claimableAt > now
    default:
      return true
  }
}

export const transitionProperties: Readonly<Record<string, (transitions: Transitions) => void>> = {
  "exactly the transitions of the table happen, with the states it lists": (transitions) =>
    holdsForAllSteps(transitions, (step) => {
      const rule = transitions.jobTransitions[step.event.event]
      const legal = rule.from.includes(step.before.status) && guardHolds(rule.guard, step)
      expect(step.after !== undefined).toBe(legal)
      if (step.after !== undefined) expect(step.after.status).toBe(rule.to === "same" ? step.before.status : rule.to)
    }),

  "a finished job never changes again": (transitions) =>
    holdsForAllSteps(transitions, ({ before, event, after }) => {
      if (isFinished(before)) expect(after).toEqual(event.event === "erased" ? before : undefined)
    }),

  "a status never goes backwards": (transitions) =>
    holdsForAllSteps(transitions, ({ before, after }) => {
      if (after !== undefined) expect(rank(after.status)).toBeGreaterThanOrEqual(rank(before.status))
    }),

  "the fencing token grows with every claim and every end of a claim, and with nothing else": (transitions) =>
    holdsForAllSteps(transitions, ({ before, event, after }) => {
      if (after === undefined) return
      if (transitions.jobTransitions[event.event].token === "raised") expect(after.token).toBeGreaterThan(before.token)
      else expect(after.token).toBe(before.token)
    }),

  "no claim's token is ever another's, and once a claim ended its token writes nothing": (transitions) =>
    holdsForAllSteps(transitions, ({ event, after }, steps) => {
      const claims = steps.flatMap((step) =>
        step.event.event === "claimed" && step.after !== undefined ? [step.after.token] : [],
      )
      if (after === undefined) return
      if (event.event === "claimed") expect(claims).not.toContain(after.token)
      if (!("token" in event)) return
      expect(event.token, "only the latest claim writes").toBe(claims.at(-1))
      const since = steps.slice(
        steps.findLastIndex((step) => step.event.event === "claimed" && step.after !== undefined) + 1,
      )
      const ended = since.some(
        (step) => step.after !== undefined && transitions.jobTransitions[step.event.event].token === "raised",
      )
      expect(ended, "and only while it lasts").toBe(false)
    }),

  "waiting and running add up to the time that passed, less what followed the ends of leases": (transitions) =>
    holdsForAllSteps(transitions, (step, earlier) => {
      const { after } = step
      if (after === undefined) return
      const until = after.finishedAt ?? after.phaseStartedAt ?? Number.NaN
      const steps = [...earlier, step]
      expect(after.ranMs + after.waitedMs).toBe(until - begunAt(steps) - unnoticedMs(steps) - pausedMs(steps))
      expect(after.ranMs).toBeGreaterThanOrEqual(0)
      expect(after.waitedMs).toBeGreaterThanOrEqual(0)
    }),

  "no lease reaches past the run limit, or past what was asked": (transitions) =>
    holdsForAllSteps(transitions, ({ event, now, after }) => {
      if (after === undefined) return
      expect(after.ranMs).toBeLessThanOrEqual(after.runLimitMs)
      if (!after.held || after.claimableAt === null || after.phaseStartedAt === null) return
      expect(after.ranMs + after.claimableAt - after.phaseStartedAt).toBeLessThanOrEqual(after.runLimitMs)
      if ("leaseDurationMs" in event) expect(after.claimableAt).toBeLessThanOrEqual(now + event.leaseDurationMs)
    }),

  "a lease is as long as was asked, unless the run limit cuts it": (transitions) =>
    holdsForAllSteps(transitions, ({ event, now, after }) => {
      if (
        after === undefined ||
        !("leaseDurationMs" in event) ||
        after.claimableAt === null ||
        after.phaseStartedAt === null
      )
        return
      const runDeadline = after.phaseStartedAt + after.runLimitMs - after.ranMs
      expect(after.claimableAt).toBe(Math.min(now + event.leaseDurationMs, runDeadline))
      if (after.claimableAt === runDeadline) expect(after.deadlineAt, "overdue where it ends").toBe(runDeadline)
      else expect(after.deadlineAt ?? 0, "else it may wait for the next worker").toBeGreaterThan(after.claimableAt)
    }),

  "an unfinished job always has a deadline": (transitions) =>
    holdsForAllSteps(transitions, (step, earlier) => {
      const { now, after } = step
      if (after === undefined || isFinished(after)) return
      const steps = [...earlier, step]
      const limitsMs = after.queueLimitMs + after.runLimitMs + unnoticedMs(steps) + pausedMs(steps)
      expect(after.deadlineAt).toBeLessThanOrEqual(Math.max(now, begunAt(steps) + limitsMs))
    }),

  "a held job never fails for waiting, however late it is": (transitions) =>
    holdsForAllSteps(transitions, ({ before, after }) => {
      if (after === undefined || !before.held) return
      expect(after.errorCode).not.toBe("queue_timeout")
      expect(after.waitedMs, "and it does not wait").toBe(before.waitedMs)
    }),

  "a heartbeat after the lease's end begins a lease, and what passed meanwhile was not running": (transitions) =>
    holdsForAllSteps(transitions, ({ before, event, now, after }) => {
      if (event.event !== "extended" || after === undefined || before.claimableAt === null || now <= before.claimableAt)
        return
      expect(after.ranMs - before.ranMs).toBe(before.claimableAt - (before.phaseStartedAt ?? Number.NaN))
      expect(after.phaseStartedAt).toBe(now)
    }),

  "an overdue job says which limit it met": (transitions) =>
    holdsForAllSteps(transitions, ({ event, after }) => {
      if (event.event !== "expired" || after === undefined) return
      if (after.errorCode === "job_timeout") expect(after.ranMs).toBe(after.runLimitMs)
      else {
        expect(after.errorCode).toBe("queue_timeout")
        expect(after.waitedMs).toBeGreaterThanOrEqual(after.queueLimitMs)
      }
    }),

  "failures, lost workers and attempts are counted apart": (transitions) =>
    holdsForAllSteps(transitions, ({ before, event, after }) => {
      if (after === undefined) return
      const claims = event.event === "claimed"
      expect(after.attempts - before.attempts).toBe(claims ? 1 : event.event === "parked" ? -1 : 0)
      expect(after.lostWorkers - before.lostWorkers).toBe(
        before.held && (claims || event.event === "abandoned" || event.event === "lost") ? 1 : 0,
      )
      expect(after.failures - before.failures).toBe(event.event === "deferred" && event.countsAsFailure ? 1 : 0)
    }),

  "a delayed job begins no earlier, and has its whole queue limit from then on": (transitions) =>
    holdsForAllSteps(transitions, ({ before, event, now, after, startsAt }, earlier) => {
      if (before.attempts > 0 || after === undefined) return
      const moves = new Set<string>(["rescheduled", "replaced", "postponed"])
      const moved = earlier.findLast((step) => moves.has(step.event.event) && step.after !== undefined)?.event
      const begins = moved !== undefined && "at" in moved ? moved.at : startsAt
      if (event.event === "claimed" && before.status === "queued") expect(now).toBeGreaterThanOrEqual(begins)
      if (event.event === "expired" && moved === undefined)
        expect(now).toBeGreaterThanOrEqual(startsAt + before.queueLimitMs)
    }),

  "a job that is not held is claimable when the event says": (transitions) =>
    holdsForAllSteps(transitions, ({ event, now, after }) => {
      if (after === undefined) return
      if (event.event === "deferred") expect(after.claimableAt).toBe(now + event.delayMs)
      if (event.event === "parked") expect(after.claimableAt).toBe(event.until)
      if (event.event === "woken") expect(after.claimableAt).toBe(now)
      if (event.event === "rescheduled" || event.event === "replaced") expect(after.claimableAt).toBe(event.at)
      if (event.event === "released" || event.event === "lost") expect(after.claimableAt).toBe(BORN)
    }),

  "fields are set exactly in the statuses to which they belong": (transitions) =>
    holdsForAllSteps(transitions, ({ event, now, after }) => {
      if (after === undefined) return
      const finished = isFinished(after)
      for (const time of [after.claimableAt, after.deadlineAt, after.phaseStartedAt])
        expect(time === null).toBe(finished)
      expect(after.held && after.status !== "processing").toBe(false)
      expect(after.errorCode !== null).toBe(after.status === "failed")
      expect(after.finishedAt !== null).toBe(finished)
      if (finished && event.event !== "erased") expect(after.finishedAt).toBe(now)
      if (event.event === "failed") expect(after.errorCode).toBe(event.errorCode)
      if (event.event === "abandoned") expect(after.errorCode).toBe("attempts_exhausted")
      if (event.event === "canceled") expect(after.errorCode).toBe("canceled_by_operator")
      if (event.event === "refused") expect(after.errorCode).toBe("not_accepted")
    }),
}
