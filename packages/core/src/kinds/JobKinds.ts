import { Context } from "effect"
import { builtInKinds } from "./builtInKinds.ts"
import type { JobKind } from "./JobKind.ts"

/** The kinds this installation knows, the four of the service unless others are provided. */
export const JobKinds = Context.Reference<ReadonlyArray<JobKind>>("@kiln/core/kinds/JobKinds", {
  defaultValue: () => builtInKinds(),
})
