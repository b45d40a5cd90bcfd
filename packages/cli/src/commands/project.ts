import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { isId, type ProjectId } from "@kiln/core/domain"
import { listSchedules, pauseSchedule } from "@kiln/core/effect"
import { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { nameProblem } from "../nameProblem.ts"
import { findProject } from "../findProject.ts"
import { recordChange } from "../recordChange.ts"
import { projectCap } from "./spendCap.ts"
import { projectLimit } from "./projectLimit.ts"
import { projectErase } from "./projectErase.ts"
import { beginStores, withStores } from "../withStores.ts"

/** `--project` also accepts ids, so a name must not look like one. */
const projectNameProblem = (name: string): string | undefined =>
  isId("prj", name) ? "must not have the form of a project id" : nameProblem(name)

const checkName = (name: string) => {
  const problem = projectNameProblem(name)
  return problem === undefined ? Effect.void : Effect.fail(misused(`NAME ${problem}`))
}

const create = Command.make(
  "create",
  { name: Argument.String("NAME").pipe(Argument.withDescription("Name of the project")) },
  ({ name }) =>
    beginStores(
      checkName(name),
      Effect.gen(function* () {
        yield* checkName(name)
        const directory = yield* KeyDirectory
        const id = (yield* IdGenerator).next("prj")
        const project = yield* directory
          .createProject({ id, name })
          .pipe(recordChange({ action: "project.create", subject: id, details: { name } }))
        if (project === undefined) return yield* failed(`a project named ${name} already exists`)
        yield* answer({ json: { project_id: project.id, name: project.name }, text: `${project.id}  ${project.name}` })
      }),
    ),
).pipe(Command.withDescription("Create a project, which API keys and jobs belong to"))

const list = Command.make("list", {}, () =>
  withStores(
    Effect.gen(function* () {
      const projects = yield* (yield* KeyDirectory).listProjects
      const rows = projects.map(({ createdAt, disabledAt, id, name }) => [
        id,
        name,
        formatTime(createdAt),
        disabledAt === null ? "" : `disabled since ${formatTime(disabledAt)}`,
      ])
      yield* answer({
        json: {
          projects: projects.map(({ createdAt, disabledAt, id, name }) => ({
            project_id: id,
            name,
            created_at: formatTime(createdAt),
            ...(disabledAt !== null && { disabled_at: formatTime(disabledAt) }),
          })),
        },
        text: formatTable(
          ["PROJECT", "NAME", "CREATED", ""],
          rows,
          "no projects yet; create one with kiln project create NAME",
        ),
      })
    }),
  ),
).pipe(Command.withDescription("List all projects"))

/** Schedules need no key to submit jobs. Returns the names of those that were running. */
const pauseSchedules = Effect.fnUntraced(function* (projectId: ProjectId) {
  const { schedules } = yield* listSchedules
  const running = schedules.filter(({ owner, paused }) => owner.projectId === projectId && !paused)
  for (const { name } of running)
    yield* pauseSchedule(name).pipe(recordChange({ action: "schedule.pause", subject: name }))
  return running.map(({ name }) => name)
})

const setter = (word: "disable" | "enable") =>
  Command.make(
    word,
    { project: Argument.String("PROJECT").pipe(Argument.withDescription("Name or id of the project")) },
    ({ project: nameOrId }) =>
      withStores(
        Effect.gen(function* () {
          const { id, name } = yield* findProject(nameOrId)
          const disabled = word === "disable"
          const project = yield* (yield* KeyDirectory)
            .disableProject(id, disabled)
            .pipe(recordChange({ action: `project.${word}`, subject: id, details: { name } }))
          if (project === undefined) return yield* failed(`the project ${JSON.stringify(nameOrId)} no longer exists`)
          const paused = disabled ? yield* pauseSchedules(id) : []
          yield* answer({
            json: {
              project_id: id,
              name,
              disabled_at: formatTime(project.disabledAt),
              ...(disabled && { paused_schedules: paused }),
            },
            text: disabled
              ? `${name} is disabled: running servers reject its keys within 5 seconds; jobs that were accepted go on` +
                paused
                  .map((schedule) => `\nthe schedule ${schedule} is paused until kiln schedule resume ${schedule}`)
                  .join("")
              : `${name} is enabled: its keys work again; schedules stay paused until kiln schedule resume`,
          })
        }),
      ),
  ).pipe(
    Command.withDescription(
      word === "disable"
        ? "Reject all keys of a project until it is enabled, and pause its schedules; accepted jobs go on"
        : "Accept the keys of a disabled project again",
    ),
  )

export const projectCommand = Command.make("project").pipe(
  Command.withDescription("Create, list, cap, limit, disable and erase projects"),
  Command.withSubcommands([create, list, setter("disable"), setter("enable"), projectCap, projectLimit, projectErase]),
)
