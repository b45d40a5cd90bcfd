import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { KeyDirectory } from "@kiln/core/ports"
import { findProject } from "../findProject.ts"
import { withStores } from "../withStores.ts"
import { capOwner, listCaps, spendCapFlags } from "./spendCap.ts"

const project = Argument.String("PROJECT").pipe(
  Argument.withDescription("Name or id of the project; without it, all caps of projects are listed"),
  Argument.optional,
)

export const projectCap = Command.make("cap", { project, ...spendCapFlags }, ({ project: nameOrId, ...given }) =>
  withStores(
    Effect.gen(function* () {
      if (Option.isSome(nameOrId)) return yield* capOwner("project", yield* findProject(nameOrId.value), given)
      yield* listCaps("project", yield* (yield* KeyDirectory).listProjects, given)
    }),
  ),
).pipe(
  Command.withDescription("Show or set the most that a project's live jobs may cost in a day and in a month (UTC)"),
  Command.withExamples([
    { command: "kiln project cap default --day 25 --month 400", description: "In US dollars" },
    { command: "kiln project cap default --day none", description: "Keep only the cap of the month" },
    { command: "kiln project cap default --clear" },
  ]),
)
