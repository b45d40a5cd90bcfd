import * as Context from "effect/Context"
import { builtInKinds } from "./builtInKinds.ts"
import type { JobKind } from "./JobKind.ts"

/** The job kinds of this installation; by default the four built-in ones. */
export const JobKinds = Context.Reference<ReadonlyArray<JobKind>>("@kiln/core/kinds/JobKinds", {
  defaultValue: () => builtInKinds(),
})
