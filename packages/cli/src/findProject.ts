import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Flag from "effect/cli/Flag"
import { KeyDirectory } from "@kiln/core/ports"
import { failed } from "./CommandFailed.ts"

/** `--project`, for commands that need none. */
export const projectFlag = Flag.String("project").pipe(
  Flag.withDescription("Only this project: its name or id"),
  Flag.optional,
)

/** Searches by id first; a name never looks like an id. */
export const findProject = Effect.fnUntraced(function* (nameOrId: string) {
  const projects = yield* (yield* KeyDirectory).listProjects
  const project = projects.find(({ id }) => id === nameOrId) ?? projects.find(({ name }) => name === nameOrId)
  return (
    project ??
    (yield* failed(
      `there is no project ${JSON.stringify(nameOrId)}: create one with kiln project create NAME; the first kiln serve creates "default"`,
    ))
  )
})

/** Returns the id of the project that the flag names, if it is given. */
export const findProjectId = Effect.fnUntraced(function* (project: Option.Option<string>) {
  return Option.isNone(project) ? undefined : (yield* findProject(project.value)).id
})
