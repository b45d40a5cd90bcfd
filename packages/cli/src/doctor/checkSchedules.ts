import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { decodeSchedule } from "@kiln/core/effect"
import { nextTick } from "@kiln/core/worker"
import type { StoreInspection, StoredSchedule } from "@kiln/core/ports"
import { quoted } from "../programCommand.ts"
import { ageText, type Check, counted, graded, type GradedFinding } from "./Check.ts"

const name = "schedules"
/** Workers look at schedules at least every 30 seconds. */
const lateMs = 120_000

type Found = ReadonlyArray<GradedFinding & { readonly remedy: string }>

const findingsOf = (stored: StoredSchedule, now: number): Found => {
  const { nextAt } = stored
  if (nextAt === null) return []
  const { kind, missed, refusal, timing, waits } = decodeSchedule(stored)
  const lateBy = now - nextAt
  const details = { schedule: stored.name, type: kind }
  if (refusal !== null && now - nextTick(timing, nextAt) < lateMs)
    return [
      {
        isProblem: false,
        message: `the job of the schedule "${stored.name}" is refused (${refusal}), and is tried again until its next tick`,
        remedy: `see the other checks and the log of the workers; to stop trying, kiln schedule pause ${quoted(stored.name)}`,
        details: { ...details, refusal },
      },
    ]
  if (lateBy < lateMs) return []
  // Its last job is unfinished. Of ticks that wait, the earliest stays with `each`; otherwise the latest follows it.
  if (waits === true && (missed === "each" || now - nextTick(timing, nextAt) < lateMs)) return []
  return [
    {
      isProblem: true,
      message: `the schedule "${stored.name}" has been due for ${ageText(lateBy)}, and no worker has submitted its job`,
      remedy: `start a worker that has the type ${kind}; if the job is no longer needed, kiln schedule pause ${quoted(stored.name)}`,
      details,
    },
  ]
}

/** Checks that the jobs of schedules are submitted when they are due. */
export const checkSchedules = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.listSchedules, ({ now, schedules }) => {
    const paused = schedules.filter((stored) => decodeSchedule(stored).paused).length
    return graded(
      name,
      schedules.flatMap((schedule) => findingsOf(schedule, now)),
      {
        well:
          schedules.length === 0
            ? "no schedules"
            : `${counted(schedules.length, "schedule")}${paused === 0 ? "" : `, ${paused} of them paused`}, none of them late`,
        wrong: "some schedules do not submit their jobs",
      },
    )
  })
