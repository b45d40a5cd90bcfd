import type { Edit } from "./Edit.ts"

/** A bug planted into the code of schedules, which the simulation of schedules must report. */
export interface ScheduleBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
}

const edit = (file: string, from: string, to: string): ReadonlyArray<Edit> => [
  { file: `packages/core/src/${file}`, from, to },
]

const submission = "  const submitted = yield* Effect.exit("
const reading = "    const { now, schedules } = yield* store.nextSchedules(batchSize, after)"

export const scheduleBugs: ReadonlyArray<ScheduleBug> = [
  {
    bug: "a schedule advances before its job is stored",
    edits: edit("worker/fireSchedules.ts", submission, `  yield* advance({}, nextAt)\n${submission}`),
  },
  {
    bug: "the process's clock decides what is due, not the store's",
    edits: edit(
      "worker/fireSchedules.ts",
      reading,
      `${reading.replace("now, ", "")}\n    const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)`,
    ),
  },
  {
    bug: "a schedule that has moved submits its tick again",
    edits: edit("domain/acceptance.ts", "facts.scheduleVersion() !== job.tick.version", "false"),
  },
  {
    bug: "every second tick is skipped",
    edits: edit(
      "domain/Schedule.ts",
      "    nextAt: nextTick(timing, latest),",
      "    nextAt: nextTick(timing, nextTick(timing, latest)),",
    ),
  },
]
