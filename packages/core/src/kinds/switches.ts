import type { JobKind } from "./JobKind.ts"

/** Returns the names of all switches of these kinds, each once. */
export const switchesOf = (kinds: ReadonlyArray<Pick<JobKind, "gate">>): ReadonlyArray<string> => [
  ...new Set(kinds.flatMap(({ gate }) => gate.switches)),
]
