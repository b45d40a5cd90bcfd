import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import {
  listSchedules,
  type Operator,
  type PlacedSchedule,
  pauseSchedule,
  removeSchedule,
  resumeSchedule,
} from "@kiln/core/effect"
import type { CreateOutcome } from "@kiln/core/ports"
import { failed } from "../CommandFailed.ts"
import { findProjectId, projectFlag } from "../findProject.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { hasTag, recordChange } from "../recordChange.ts"
import { withOperator } from "../withOperator.ts"
import { withStores } from "../withStores.ts"

type Named = PlacedSchedule & { readonly name: string }

/** Formats a schedule as `--json` lists it. The request may be personal, so no command prints it. */
const scheduleFields = (schedule: Named) => {
  const { kind, last, missed, name, nextAt, owner, paused, priority, refusal, skipped, timing } = schedule
  return {
    name,
    type: kind,
    cron: "cron" in timing ? timing.cron : null,
    time_zone: "cron" in timing ? timing.timeZone : null,
    every_seconds: "cron" in timing ? null : timing.everyMs / 1_000,
    project_id: owner.projectId,
    mode: owner.mode,
    priority,
    tags: schedule.tags ?? [],
    missed,
    overlap: schedule.overlap ?? "allow",
    jitter_seconds: (schedule.jitterMs ?? 0) / 1_000,
    ends_at: formatTime(schedule.endsAt ?? null),
    paused,
    next_at: formatTime(nextAt),
    last_at: formatTime(last?.tick ?? null),
    last_job_id: last?.jobId ?? null,
    refusal,
    waits: schedule.waits ?? false,
    skipped: skipped?.count ?? 0,
    last_skipped_at: formatTime(skipped?.tick ?? null),
    last_skip_reason: skipped?.reason ?? null,
  }
}

const timingText = ({ timing }: Named): string =>
  "cron" in timing ? `${timing.cron} ${timing.timeZone}` : `every ${timing.everyMs / 1_000} s`

const stateText = (schedule: Named, now: number): string =>
  [standing(schedule, now), schedule.skipped === undefined ? "" : `${schedule.skipped.count} skipped`]
    .filter((text) => text !== "")
    .join(", ")

const standing = ({ nextAt, paused, refusal, waits }: Named, now: number): string => {
  if (paused) return "paused"
  if (nextAt === null) return "ended"
  if (refusal !== null) return `refused: ${refusal}`
  if (waits === true) return "waits for its last job"
  return nextAt <= now ? "due" : ""
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

const unknownSchedule = (given: string) =>
  failed(`there is no schedule ${JSON.stringify(given)}: see kiln schedule list`)

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
        if (!exists) return yield* unknownSchedule(given.name)
        yield* answer({ json: { name: given.name, ...json }, text: text(given.name) })
      }),
    ),
  ).pipe(Command.withDescription(description))
}

/** The job that was created, in the answer of the store. */
const newJobOf = (outcomes: unknown) => {
  const [outcome] = outcomes as ReadonlyArray<CreateOutcome>
  return outcome?._tag === "Created" ? { job_id: outcome.job.id } : {}
}

const submit = (operator: Operator["Service"], schedule: string) =>
  operator.runSchedule(schedule).pipe(
    recordChange({ action: "schedule.run", subject: schedule }, hasTag("Created"), newJobOf),
    Effect.mapError((error) => {
      switch (error._tag) {
        case "StoreUnavailable":
          return error
        case "KindUnknown":
          return failed(
            `${schedule} was not run: ${error.message}; list the kind in the configuration that KILN_CONFIG names`,
          )
        default:
          return failed(`${schedule} was not run: ${error.message}`)
      }
    }),
  )

const runOnce = Command.make("run", { name }, (given) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const accepted = yield* submit(operator, given.name)
      if (accepted === undefined) return yield* unknownSchedule(given.name)
      const { deduplicated = false, job } = accepted
      yield* answer({
        json: { name: given.name, job_id: job.id, status: job.status, deduplicated },
        text: deduplicated
          ? `${job.id} of ${given.name} is not finished yet; no other job was submitted`
          : `${given.name} submitted ${job.id}; its ticks stay as they are`,
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Submit a job of a schedule now, also while it is paused, unless one that was submitted so is unfinished",
  ),
)

export const scheduleCommand = Command.make("schedule").pipe(
  Command.withDescription("List, run, pause, resume and remove schedules, which submit jobs again and again"),
  Command.withSubcommands([list, runOnce, setter("pause"), setter("resume"), setter("remove")]),
)
