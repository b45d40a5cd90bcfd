import { JobKind } from "../kinds/JobKind.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import { fieldOf } from "../providers/checks.ts"
import { runAsync } from "./asyncAttempt.ts"
import { runAsyncBatch } from "./asyncBatch.ts"
import { loadOf } from "./unloadedKind.ts"

/** Returns a kind that is not built in, with everything that runs its jobs. Throws `TypeError` for anything but a kind. */
export const ownKind = (kind: Kind): JobKind => {
  const load = loadOf(kind)
  if (load !== undefined) return load({ JobKind, runAsync, runAsyncBatch })
  if (typeof fieldOf(kind, "run") === "function" && fieldOf(kind, "reader") !== undefined) return kind as JobKind
  throw new TypeError(`expected a kind created by jobKind() or JobKind(), ${notKind(kind)}`)
}

/** What was given instead of a kind, and how to mend it. */
const notKind = (given: unknown): string => {
  if (given === undefined) return "not undefined: if it is imported, its module may import this one in a cycle"
  if (typeof given === "function") return "not a function: call it"
  if (typeof fieldOf(given, "run") === "function") return "not its options: pass jobKind({ … })"
  return Array.isArray(given)
    ? "not a list: spread it"
    : `not ${given === null ? "null" : `a value of type ${typeof given}`}`
}
