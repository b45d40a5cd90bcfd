import * as Effect from "effect/Effect"
import type { ProjectId, WaitingFor } from "@kiln/core/domain"
import { KeyDirectory, type Project } from "@kiln/core/ports"
import { refuse } from "./ApiError.ts"
import { formatTime } from "./format.ts"

/** The projects, for their names. */
export const readProjects = Effect.flatMap(KeyDirectory, (directory) => directory.listProjects)

/** Returns the project with this name or id. */
export const findProject = Effect.fnUntraced(function* (nameOrId: string) {
  const projects = yield* (yield* KeyDirectory).listProjects
  const found = projects.find(({ id }) => id === nameOrId) ?? projects.find(({ name }: Project) => name === nameOrId)
  return found ?? (yield* Effect.fail(refuse("not_found", "there is no such project")))
})

/** Returns the id that selects the jobs of a project, also of one that has no record. */
export const projectIdOf = (nameOrId: string) =>
  nameOrId.startsWith("prj_")
    ? Effect.succeed(nameOrId as ProjectId)
    : Effect.map(findProject(nameOrId), ({ id }) => id)

/** Formats what a job waits for. */
export const waitingFields = ({ cause, count, limit, reason, subject, until }: WaitingFor) => ({
  reason,
  subject,
  cause,
  until: formatTime(until),
  count,
  limit,
})
