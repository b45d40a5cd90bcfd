import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { builtInKinds } from "@kiln/core/kinds"
import type { JobCount } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { findProjectId, projectFlag } from "../findProject.ts"
import { answer, formatTable } from "../Output.ts"
import { always, recordChange } from "../recordChange.ts"
import { withOperator } from "../withOperator.ts"

/** One line of the statistics: the jobs of one type and mode. */
interface Queue {
  readonly type: string
  readonly mode: string
  readonly paused: boolean
  readonly counts: Readonly<Record<JobCount["status"], number>>
}

const none: Queue["counts"] = { queued: 0, delayed: 0, processing: 0, done: 0, failed: 0 }

/** Groups counts by type and mode. Paused types are listed even without jobs. */
const queuesOf = (counts: ReadonlyArray<JobCount>, paused: ReadonlyArray<string>): ReadonlyArray<Queue> => {
  const names = new Map<string, Pick<Queue, "type" | "mode">>(
    counts.map(({ kind: type, mode }) => [`${type} ${mode}`, { type, mode }]),
  )
  for (const type of paused) if (!counts.some(({ kind }) => kind === type)) names.set(type, { type, mode: "-" })
  return [...names.values()].map(({ mode, type }) => ({
    type,
    mode,
    paused: paused.includes(type),
    counts: {
      ...none,
      ...Object.fromEntries(
        counts.filter((count) => count.kind === type && count.mode === mode).map((each) => [each.status, each.count]),
      ),
    },
  }))
}

const stats = Command.make("stats", { project: projectFlag }, ({ project }) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const projectId = yield* findProjectId(project)
      const { pausedKinds } = yield* operator.board
      const queues = queuesOf(yield* operator.count({ projectId }), pausedKinds)
      const rows = queues.map(({ counts, mode, paused, type }) => [
        type,
        mode,
        ...[counts.queued, counts.delayed, counts.processing, counts.done, counts.failed].map(String),
        paused ? "paused" : "",
      ])
      yield* answer({
        json: {
          project_id: projectId ?? null,
          queues: queues
            .filter(({ mode }) => mode !== "-")
            .map(({ counts: { done, failed, ...unfinished }, mode, paused, type }) => ({
              type,
              mode,
              ...unfinished,
              done_24h: done,
              failed_24h: failed,
              paused,
            })),
          paused_types: pausedKinds,
        },
        text: formatTable(
          ["TYPE", "MODE", "QUEUED", "DELAYED", "PROCESSING", "DONE (24 H)", "FAILED (24 H)", ""],
          rows,
          "no unfinished jobs, and none that finished within 24 hours",
        ),
      })
    }),
  ),
).pipe(Command.withDescription("Count unfinished jobs, and those that finished within 24 hours, by type and mode"))

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
