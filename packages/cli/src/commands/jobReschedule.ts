import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { type Priority, readPriority } from "@kiln/core/domain"
import { changeEach, maxDelayMs, type NewPlace, type Operator, tallyChanges, toleratingEnd } from "@kiln/core/effect"
import { misused } from "../CommandFailed.ts"
import { answer, formatTime } from "../Output.ts"
import { hasTag, recordChange } from "../recordChange.ts"
import { duration } from "../settings/SettingType.ts"
import { withOperator } from "../withOperator.ts"
import { momentOf } from "./billingMoment.ts"
import { changeFlags, counted, explained, oneJob, selected } from "./jobChange.ts"

const flags = {
  ...changeFlags,
  at: Flag.String("at").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("When it may start: 2026-11-28 (midnight in UTC) or RFC 3339"),
    Flag.optional,
  ),
  in: Flag.String("in").pipe(
    Flag.withMetavar("DURATION"),
    Flag.withDescription("The time from now after which it may start, such as 30m, 12h or 7d"),
    Flag.optional,
  ),
  priority: Flag.String("priority").pipe(
    Flag.withMetavar("PRIORITY"),
    Flag.withDescription("The new priority: low, normal, high, urgent, or an integer from -5 to 5"),
    Flag.optional,
  ),
}

/** Returns the milliseconds until the start that the flags name. */
const delayGiven = Effect.fnUntraced(function* (at: Option.Option<string>, wait: Option.Option<string>) {
  if (Option.isSome(at)) return Math.max(0, (yield* momentOf("at", at.value)) - (yield* Clock.currentTimeMillis))
  if (Option.isNone(wait)) return undefined
  const given = duration(wait.value)
  return given.ok ? given.value : yield* misused(`--in ${given.rule}`)
})

const priorityGiven = (given: Option.Option<string>) =>
  Effect.suspend(() => {
    if (Option.isNone(given)) return Effect.succeed(undefined)
    const text = given.value
    try {
      return Effect.succeed(readPriority((/^-?\d+$/.test(text) ? Number(text) : text) as Priority))
    } catch (error) {
      return misused(`--${(error as TypeError).message}`)
    }
  })

const rescheduled = (operator: Operator["Service"], jobId: string, place: NewPlace) => {
  const { delayMs, priority } = place
  const details = {
    ...(delayMs !== undefined && { delay_seconds: Math.ceil(delayMs / 1_000) }),
    ...(priority !== undefined && { priority }),
  }
  return operator
    .reschedule(jobId, place)
    .pipe(recordChange({ action: "job.reschedule", subject: jobId, details }, hasTag("Rescheduled")))
}

export const jobReschedule = Command.make("reschedule", flags, (given) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const { at, in: wait } = given
      const priority = yield* priorityGiven(given.priority)
      if (Option.isSome(at) && Option.isSome(wait)) return yield* misused("give either --at or --in, not both")
      const delayMs = yield* delayGiven(at, wait)
      if (delayMs === undefined && priority === undefined)
        return yield* misused("kiln job reschedule needs --at or --in, or --priority")
      if (delayMs !== undefined && delayMs > maxDelayMs)
        return yield* misused("a job can be rescheduled by at most 366 days")
      const place = { delayMs, priority }
      const jobId = yield* oneJob(given)
      if (jobId === undefined) {
        const found = yield* selected(given, delayMs === undefined ? "prioritize" : "reschedule")
        if (found === undefined) return
        const outcomes = yield* changeEach(found.jobs, (id) => toleratingEnd(rescheduled(operator, id, place)))
        const { changed, skipped } = tallyChanges(outcomes)
        yield* answer({
          json: { matched: found.jobs.length, rescheduled: changed, skipped, complete: found.isComplete },
          text: `${counted(changed)} rescheduled, ${skipped} needed no change or had started meanwhile${found.isComplete ? "" : "; there are more: repeat the command"}`,
        })
        return
      }
      const startsAt = delayMs === undefined ? undefined : formatTime((yield* Clock.currentTimeMillis) + delayMs)
      yield* explained(jobId, "rescheduled", rescheduled(operator, jobId, place))
      const start = startsAt === undefined ? [] : [`may start at ${startsAt}`]
      const rank = priority === undefined ? [] : [`has the priority ${priority}`]
      yield* answer({
        json: {
          job_id: jobId,
          ...(startsAt !== undefined && { starts_at: startsAt }),
          ...(priority !== undefined && { priority }),
        },
        text: `${jobId} ${[...start, ...rank].join(" and ")}`,
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Change when a job that waits may start, or start its next attempt, or its priority; or those of all that flags select",
  ),
)
