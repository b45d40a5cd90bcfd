import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Flag from "effect/cli/Flag"
import type { ProjectId } from "@kiln/core/domain"
import { listSchedules } from "@kiln/core/effect"
import { JobDirectory, KeyDirectory } from "@kiln/core/ports"
import { failed } from "./CommandFailed.ts"

/** `--project`, for commands that need none. */
export const projectFlag = Flag.String("project").pipe(
  Flag.withDescription("Only this project: its name or id"),
  Flag.optional,
)

/** Searches by id first; a name never looks like an id. */
const findRecord = Effect.fnUntraced(function* (nameOrId: string) {
  const projects = yield* (yield* KeyDirectory).listProjects
  return projects.find(({ id }) => id === nameOrId) ?? projects.find(({ name }) => name === nameOrId)
})

const unknown = (nameOrId: string) =>
  failed(
    `there is no project ${JSON.stringify(nameOrId)}: create one with kiln project create NAME; the first kiln serve creates "default"`,
  )

/** Returns a project that has a record, which one needs for keys. */
export const findProject = Effect.fnUntraced(function* (nameOrId: string) {
  return (yield* findRecord(nameOrId)) ?? (yield* unknown(nameOrId))
})

/** A project of an embedded engine, by its name or by its id. It has no record. */
const embeddedName = /^(?:prj_)?(?<name>[A-Za-z0-9_-]{1,64})$/

/** Whether a project has a job or a schedule. */
const isInUse = Effect.fnUntraced(function* (projectId: ProjectId) {
  const { schedules } = yield* listSchedules
  if (schedules.some(({ owner }) => owner.projectId === projectId)) return true
  const directory = yield* JobDirectory
  let after: string | undefined
  do {
    const { jobs, next } = yield* directory.listJobs({ projectId, limit: 1, after })
    if (jobs.length > 0) return true
    after = next
  } while (after !== undefined)
  return false
})

/** Returns a project with or without a record. One without has jobs or schedules of a program that embeds the engine. */
export const findAnyProject = Effect.fnUntraced(function* (nameOrId: string) {
  const record = yield* findRecord(nameOrId)
  if (record !== undefined) return { ...record, hasRecord: true }
  const name = embeddedName.exec(nameOrId)?.groups?.["name"]
  const id: ProjectId = `prj_${name ?? ""}`
  if (name === undefined || !(yield* isInUse(id))) return yield* unknown(nameOrId)
  return { id, name, hasRecord: false }
})

/** Returns the id of the project that the flag names, if it is given. */
export const findProjectId = Effect.fnUntraced(function* (project: Option.Option<string>) {
  return Option.isNone(project) ? undefined : (yield* findAnyProject(project.value)).id
})
