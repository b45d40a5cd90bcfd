import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { JobKind } from "./JobKind.ts"

/** The value of `JobKinds` if a program provides one. Has its key but no default, because the default needs Effect Schema. */
export class InstalledKinds extends Context.Service<InstalledKinds, ReadonlyArray<JobKind>>()(
  "@kiln/core/kinds/JobKinds",
) {}

/**
 * The job kinds of this installation, for the engine and the worker: `JobKinds`, but what the built-in kinds need is loaded only if
 * no kinds were provided.
 */
export const installedKinds: Effect.Effect<ReadonlyArray<JobKind>> = Effect.flatMap(
  Effect.serviceOption(InstalledKinds),
  Option.match({
    onSome: Effect.succeed,
    onNone: () => Effect.promise(async () => (await import("./builtInKinds.ts")).builtInKinds()),
  }),
)
