import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { listSchedules, type PlacedSchedule, pauseSchedule, removeSchedule, resumeSchedule } from "@kiln/core/effect"
import { failed } from "../CommandFailed.ts"
import { findProjectId, projectFlag } from "../findProject.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { withStores } from "../withStores.ts"

type Named = PlacedSchedule & { readonly name: string }

/** Formats a schedule as `--json` lists it. The request may be personal, so no command prints it. */
const scheduleFields = ({ kind, last, missed, name, nextAt, owner, paused, priority, refusal, timing }: Named) => ({
  name,
  type: kind,
  cron: "cron" in timing ? timing.cron : null,
  time_zone: "cron" in timing ? timing.timeZone : null,
  every_seconds: "cron" in timing ? null : timing.everyMs / 1_000,
  project_id: owner.projectId,
  mode: owner.mode,
  priority,
  missed,
  paused,
  next_at: formatTime(nextAt),
  last_at: formatTime(last?.tick ?? null),
  last_job_id: last?.jobId ?? null,
  refusal,
})

const timingText = ({ timing }: Named): string =>
  "cron" in timing ? `${timing.cron} ${timing.timeZone}` : `every ${timing.everyMs / 1_000} s`

const stateText = ({ nextAt, paused, refusal }: Named, now: number): string => {
  if (paused) return "paused"
  if (refusal !== null) return `refused: ${refusal}`
  return nextAt !== null && nextAt <= now ? "due" : ""
}

const list = Command.make("list", { project: projectFlag }, ({ project }) =>
  withStores(
    Effect.gen(function* () {
      const projectId = yield* findProjectId(project)
      const { now, schedules } = yield* listSchedules
      const chosen = schedules.filter(({ owner }) => projectId === undefined || owner.projectId === projectId)
      yield* answer({
        json: { schedules: chosen.map(scheduleFields) },
        text: formatTable(
          ["SCHEDULE", "TYPE", "WHEN", "PROJECT", "MODE", "NEXT", "LAST", "LAST JOB", ""],
          chosen.map((schedule) => [
            schedule.name,
            schedule.kind,
            timingText(schedule),
            schedule.owner.projectId,
            schedule.owner.mode,
            formatTime(schedule.nextAt),
            formatTime(schedule.last?.tick ?? null),
            schedule.last?.jobId ?? null,
            stateText(schedule, now),
          ]),
          "no schedules; programs set them with engine.schedules.set()",
        ),
      })
    }),
  ),
).pipe(Command.withDescription("List schedules: when they submit jobs next, their last job, and why one is refused"))

const name = Argument.String("NAME").pipe(Argument.withDescription("The schedule's name, from `kiln schedule list`"))

interface Verb {
  readonly change: typeof pauseSchedule
  readonly description: string
  readonly json: object
  readonly text: (schedule: string) => string
}

const verbs: Readonly<Record<"pause" | "resume" | "remove", Verb>> = {
  pause: {
    change: pauseSchedule,
    description: "Stop submitting the jobs of a schedule; ticks during the pause get no job, and accepted jobs go on",
    json: { paused: true },
    text: (schedule) => `${schedule} is paused: no job is submitted until kiln schedule resume ${schedule}`,
  },
  resume: {
    change: resumeSchedule,
    description: "Continue a paused schedule with its next tick",
    json: { paused: false },
    text: (schedule) => `${schedule} continues with its next tick; workers notice within 30 seconds`,
  },
  remove: {
    change: removeSchedule,
    description: "Remove a schedule; its jobs stay. A program that sets it when it starts sets it again",
    json: { removed: true },
    text: (schedule) => `${schedule} is removed; a program that sets it when it starts sets it again`,
  },
}

const setter = (word: keyof typeof verbs) => {
  const { change, description, json, text } = verbs[word]
  return Command.make(word, { name }, (given) =>
    withStores(
      Effect.gen(function* () {
        const exists = yield* change(given.name).pipe(recordChange({ action: `schedule.${word}`, subject: given.name }))
        if (!exists) return yield* failed(`there is no schedule ${JSON.stringify(given.name)}: see kiln schedule list`)
        yield* answer({ json: { name: given.name, ...json }, text: text(given.name) })
      }),
    ),
  ).pipe(Command.withDescription(description))
}

export const scheduleCommand = Command.make("schedule").pipe(
  Command.withDescription("List, pause, resume and remove schedules, which submit jobs again and again"),
  Command.withSubcommands([list, setter("pause"), setter("resume"), setter("remove")]),
)
