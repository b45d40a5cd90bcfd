import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import type { ProjectId } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { findProject } from "../findProject.ts"
import { answer, formatTable } from "../Output.ts"
import { always, recordChange } from "../recordChange.ts"
import { withOperator } from "../withOperator.ts"

const project = Argument.String("PROJECT").pipe(
  Argument.withDescription("Name or id of the project; without it, all projects with a limit are listed"),
  Argument.optional,
)

const concurrency = Flag.String("concurrency").pipe(
  Flag.withDescription(
    "Jobs that run at the same time in all processes, live and sandbox separately; none for no limit",
  ),
  Flag.withMetavar("N"),
  Flag.optional,
)

const clear = Flag.Boolean("clear").pipe(
  Flag.withDescription("Remove the limit, so that KILN_PROJECT_CONCURRENCY applies again"),
  Flag.withDefault(false),
)

/** Returns the limit to set, `null` to remove it, or `undefined` if the flags change nothing. */
const changeOf = Effect.fnUntraced(function* (given: Option.Option<string>, clears: boolean) {
  if (clears) return Option.isSome(given) ? yield* misused("--clear goes with no other flag") : null
  if (Option.isNone(given)) return undefined
  if (given.value === "none") return 0
  return /^[1-9]\d{0,8}$/.test(given.value)
    ? Number(given.value)
    : yield* misused("--concurrency must be a positive integer, or none for no limit")
})

interface Row {
  readonly id: ProjectId
  readonly name: string
  /** `undefined` without a limit of its own. */
  readonly limit: number | undefined
}

const fieldsOf = ({ id, limit, name }: Row) => ({
  project_id: id,
  name,
  concurrency: limit === undefined ? null : limit === 0 ? "none" : limit,
})

const table = (rows: ReadonlyArray<Row>, empty: string) =>
  formatTable(
    ["PROJECT", "NAME", "CONCURRENCY"],
    rows.flatMap(({ id, limit, name }) =>
      limit === undefined ? [] : [[id, name, limit === 0 ? "no limit" : String(limit)]],
    ),
    empty,
  )

export const projectLimit = Command.make("limit", { project, concurrency, clear }, (flags) =>
  withOperator((operator) =>
    Effect.gen(function* () {
      const limit = yield* changeOf(flags.concurrency, flags.clear)
      if (Option.isNone(flags.project)) {
        if (limit !== undefined) return yield* misused("which project? The flags change one")
        const { projectConcurrency } = yield* operator.board
        const rows = (yield* (yield* KeyDirectory).listProjects).map(({ id, name }) => ({
          id,
          name,
          limit: projectConcurrency[id],
        }))
        const limited = rows.filter((row) => row.limit !== undefined)
        return yield* answer({
          json: { projects: limited.map(fieldsOf) },
          text: table(limited, "no project has a limit of its own"),
        })
      }
      const { id, name } = yield* findProject(flags.project.value)
      if (limit !== undefined)
        yield* operator.limitProject(id, limit).pipe(
          recordChange(
            {
              action: limit === null ? "project.limit.clear" : "project.limit.set",
              subject: id,
              details: limit === null ? {} : { concurrency: limit },
            },
            always,
          ),
        )
      const row = { id, name, limit: (yield* operator.board).projectConcurrency[id] }
      yield* answer({ json: fieldsOf(row), text: table([row], `${name} has no limit of its own`) })
    }),
  ),
).pipe(
  Command.withDescription("Show or set how many jobs of a project run at the same time"),
  Command.withExamples([
    { command: "kiln project limit default --concurrency 4", description: "In all processes, within a second" },
    { command: "kiln project limit default --concurrency none", description: "No limit for this project" },
    { command: "kiln project limit default --clear" },
  ]),
)
