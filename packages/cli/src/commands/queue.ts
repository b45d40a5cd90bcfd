import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { builtInKinds } from "@kiln/core/kinds"
import type { JobCount, QueueDepth } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { findProjectId, projectFlag } from "../findProject.ts"
import { answer, formatTable } from "../Output.ts"
import { always, recordChange } from "../recordChange.ts"
import { withOperator } from "../withOperator.ts"

type Numbers = Omit<QueueDepth, "kind" | "mode"> & Readonly<Record<JobCount["status"], number>>

/** One line of the statistics: the jobs of one type and mode. */
interface Queue {
  readonly type: string
  readonly mode: string
  readonly paused: boolean
  readonly numbers: Numbers
}

const none: Numbers = {
  ...{ ready: 0, delayed: 0, retrying: 0, running: 0, oldestReadyMs: 0 },
  ...{ queued: 0, processing: 0, done: 0, failed: 0 },
}

/** Groups numbers by type and mode. Paused types are listed even without jobs. */
const queuesOf = (
  counts: ReadonlyArray<JobCount>,
  depths: ReadonlyArray<QueueDepth>,
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
    return [{ type, mode, paused: paused.includes(type), numbers: { ...none, ...byStatus, ...depths.find(isOf) } }]
  })
}

const queueFields = ({ mode, numbers, paused, type }: Queue) => ({
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
})

const stats = Command.make("stats", { project: projectFlag }, ({ project }) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const projectId = yield* findProjectId(project)
      const { pausedKinds } = yield* operator.board
      const depths = yield* operator.measureQueue({ projectId })
      const queues = queuesOf(yield* operator.count({ projectId }), depths, pausedKinds)
      const rows = queues.map(({ mode, numbers, paused, type }) => [
        type,
        mode,
        ...[numbers.ready, numbers.running, numbers.retrying, numbers.delayed, numbers.done, numbers.failed].map(
          String,
        ),
        paused ? "paused" : "",
      ])
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
    "Count jobs by type and mode: ready to start, running, between two attempts, delayed, and finished within 24 hours",
  ),
)

const types: ReadonlyArray<string> = builtInKinds().map(({ name }) => name)
const type = Argument.String("TYPE").pipe(Argument.withDescription(types.join(", ")))

const setter = (word: "pause" | "resume") =>
  Command.make(word, { type }, (given) =>
    withOperator((operator) =>
      Effect.gen(function* () {
        const paused = word === "pause"
        yield* (paused ? operator.pause(given.type) : operator.resume(given.type)).pipe(
          recordChange({ action: `queue.${word}`, subject: given.type }, always),
          Effect.catchTag("KindUnknown", () =>
            misused(`TYPE must be one of ${types.join(", ")}, not ${JSON.stringify(given.type)}`),
          ),
        )
        yield* answer({
          json: { type: given.type, paused },
          text: paused
            ? `${given.type} is paused: jobs are accepted and wait until kiln queue resume ${given.type}`
            : `${given.type} is not paused`,
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
