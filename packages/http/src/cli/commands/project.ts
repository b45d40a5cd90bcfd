import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { isId } from "@kiln/core/domain"
import { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { withStores } from "../withStores.ts"

/** Names are for people and for `--project`, which takes ids as well. */
const nameProblem = (name: string): string | undefined => {
  if (name.trim() !== name || name === "" || [...name].length > 100 || /\p{Cc}/u.test(name))
    return "NAME must have 1 to 100 characters, without space at its ends or control characters"
  return isId("prj", name) ? "NAME must not look like a project's id" : undefined
}

const create = Command.make(
  "create",
  { name: Argument.String("NAME").pipe(Argument.withDescription("What the project is called")) },
  ({ name }) =>
    withStores(
      Effect.gen(function* () {
        const problem = nameProblem(name)
        if (problem !== undefined) return yield* misused(problem)
        const directory = yield* KeyDirectory
        const id = yield* (yield* IdGenerator).next("prj")
        const project = yield* directory.createProject({ id, name })
        if (project === undefined) return yield* failed(`there is a project named ${name} already`)
        yield* answer({ json: { project_id: project.id, name: project.name }, text: `${project.id}  ${project.name}` })
      }),
    ),
).pipe(Command.withDescription("Make a project, which API keys and jobs belong to"))

const list = Command.make("list", {}, () =>
  withStores(
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
        text: formatTable(["PROJECT", "NAME", "CREATED"], rows, "no projects yet: kiln project create NAME"),
      })
    }),
  ),
).pipe(Command.withDescription("List all projects"))

export const projectCommand = Command.make("project").pipe(
  Command.withDescription("Make and list projects"),
  Command.withSubcommands([create, list]),
)
