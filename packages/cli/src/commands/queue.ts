import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import type { WaitingFor } from "@kiln/core/domain"
import { measureQueues } from "@kiln/core/effect"
import { type JobCount, JobDirectory, type QueueDepth, Switchboard } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { findProjectId, projectFlag } from "../findProject.ts"
import { answer, formatTable } from "../Output.ts"
import { always, recordChange } from "../recordChange.ts"
import { withKinds } from "../withKinds.ts"
import { withOperator } from "../withOperator.ts"
import { waitingFields, waitingText } from "./waitingText.ts"

type Depth = QueueDepth & Pick<Queue, "heldBack">

type Numbers = Omit<QueueDepth, "kind" | "mode"> & Readonly<Record<JobCount["status"], number>>

/** One line of the statistics: the jobs of one type and mode. */
interface Queue {
  readonly type: string
  readonly mode: string
  readonly paused: boolean
  readonly numbers: Numbers
  readonly heldBack: ReadonlyArray<WaitingFor>
}

const none: Numbers = {
  ready: 0,
  delayed: 0,
  retrying: 0,
  running: 0,
  oldestReadyMs: 0,
  queued: 0,
  processing: 0,
  done: 0,
  failed: 0,
}

/** Groups numbers by type and mode. Paused types are listed even without jobs. */
const queuesOf = (
  counts: ReadonlyArray<JobCount>,
  depths: ReadonlyArray<Depth>,
  paused: ReadonlyArray<string>,
): ReadonlyArray<Queue> => {
  const known = [...counts, ...depths]
  const names = new Map<string, Pick<Queue, "type" | "mode">>(
    known.map(({ kind: type, mode }) => [`${type} ${mode}`, { type, mode }]),
  )
  for (const type of paused) if (!known.some(({ kind }) => kind === type)) names.set(type, { type, mode: "-" })
  return [...names.keys()].toSorted().flatMap((name) => {
    const group = names.get(name)
    if (group === undefined) return []
    const { mode, type } = group
    const isOf = (each: Pick<JobCount, "kind" | "mode">) => each.kind === type && each.mode === mode
    const byStatus = Object.fromEntries(counts.filter(isOf).map((each) => [each.status, each.count]))
    const depth = depths.find(isOf)
    const isPaused = paused.includes(type)
    const held = depth?.heldBack ?? []
    return [{ type, mode, paused: isPaused, numbers: { ...none, ...byStatus, ...depth }, heldBack: held }]
  })
}

const heldBackText = ({ heldBack, paused }: Queue): string =>
  [...(paused ? ["paused"] : []), ...heldBack.filter(({ reason }) => reason !== "kind_paused").map(waitingText)].join(
    "; ",
  )

const queueFields = ({ heldBack, mode, numbers, paused, type }: Queue) => ({
  type,
  mode,
  ready: numbers.ready,
  running: numbers.running,
  retrying: numbers.retrying,
  delayed: numbers.delayed,
  oldest_ready_seconds: numbers.oldestReadyMs / 1_000,
  // The same jobs by status.
  queued: numbers.queued,
  processing: numbers.processing,
  done_24h: numbers.done,
  failed_24h: numbers.failed,
  paused,
  held_back: heldBack.map(waitingFields),
})

const dayMs = 24 * 3_600_000

const stats = Command.make("stats", { project: projectFlag }, ({ project }) =>
  withKinds(
    Effect.gen(function* () {
      const projectId = yield* findProjectId(project)
      const { pausedKinds } = yield* (yield* Switchboard).readBoard
      const counts = yield* (yield* JobDirectory).countJobs({ finishedWithinMs: dayMs, projectId })
      const queues = queuesOf(counts, yield* measureQueues(projectId), pausedKinds)
      const rows = queues.map((queue) => {
        const { mode, numbers, type } = queue
        return [
          type,
          mode,
          ...[numbers.ready, numbers.running, numbers.retrying, numbers.delayed, numbers.done, numbers.failed].map(
            String,
          ),
          heldBackText(queue),
        ]
      })
      yield* answer({
        json: {
          project_id: projectId ?? null,
          queues: queues.filter(({ mode }) => mode !== "-").map(queueFields),
          paused_types: pausedKinds,
        },
        text: formatTable(
          ["TYPE", "MODE", "READY", "RUNNING", "RETRYING", "DELAYED", "DONE (24 H)", "FAILED (24 H)", ""],
          rows,
          "no unfinished jobs, and none that finished within 24 hours",
        ),
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Count jobs by type and mode: ready to start, running, between two attempts or parked, delayed, and finished within 24 hours",
  ),
)

const type = Argument.String("TYPE").pipe(
  Argument.withDescription("A type of jobs, also one that only other processes know: see `kiln queue stats`"),
)

const setter = (word: "pause" | "resume") =>
  Command.make(word, { type }, (given) =>
    withOperator((operator) =>
      Effect.gen(function* () {
        const paused = word === "pause"
        yield* (paused ? operator.pause(given.type) : operator.resume(given.type)).pipe(
          recordChange({ action: `queue.${word}`, subject: given.type }, always),
          Effect.catchTag("KindUnknown", (error) => misused(`TYPE: ${error.message}`)),
        )
        yield* answer({
          json: { type: given.type, paused },
          text: paused
            ? `${given.type} is paused: jobs are accepted and wait until kiln queue resume ${given.type}`
            : `${given.type} is resumed: its jobs start again`,
        })
      }),
    ),
  ).pipe(
    Command.withDescription(
      word === "pause"
        ? "Stop starting jobs of a type, in all processes, within a second; running jobs continue"
        : "Start jobs of a paused type again",
    ),
  )

export const queueCommand = Command.make("queue").pipe(
  Command.withDescription("Show how many jobs wait, and pause types of jobs"),
  Command.withSubcommands([stats, setter("pause"), setter("resume")]),
)
