import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { isId } from "@kiln/core/domain"
import { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { nameProblem } from "../nameProblem.ts"
import { beginStores } from "../withStores.ts"

/** `--project` also accepts ids, so a name must not look like one. */
const projectNameProblem = (name: string): string | undefined =>
  isId("prj", name) ? "must not have the form of a project id" : nameProblem(name)

const create = Command.make(
  "create",
  { name: Argument.String("NAME").pipe(Argument.withDescription("Name of the project")) },
  ({ name }) =>
    beginStores(
      Effect.gen(function* () {
        const problem = projectNameProblem(name)
        if (problem !== undefined) return yield* misused(`NAME ${problem}`)
        const directory = yield* KeyDirectory
        const id = (yield* IdGenerator).next("prj")
        const project = yield* directory.createProject({ id, name })
        if (project === undefined) return yield* failed(`a project named ${name} already exists`)
        yield* answer({ json: { project_id: project.id, name: project.name }, text: `${project.id}  ${project.name}` })
      }),
    ),
).pipe(Command.withDescription("Create a project, which API keys and jobs belong to"))

const list = Command.make("list", {}, () =>
  beginStores(
    Effect.gen(function* () {
      const projects = yield* (yield* KeyDirectory).listProjects
      const rows = projects.map(({ createdAt, id, name }) => [id, name, formatTime(createdAt)])
      yield* answer({
        json: {
          projects: projects.map(({ createdAt, id, name }) => ({
            project_id: id,
            name,
            created_at: formatTime(createdAt),
          })),
        },
        text: formatTable(
          ["PROJECT", "NAME", "CREATED"],
          rows,
          "no projects yet; create one with kiln project create NAME",
        ),
      })
    }),
  ),
).pipe(Command.withDescription("List all projects"))

export const projectCommand = Command.make("project").pipe(
  Command.withDescription("Create and list projects"),
  Command.withSubcommands([create, list]),
)
