import { JobKind } from "../kinds/JobKind.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import { fieldOf } from "../providers/checks.ts"
import { runAsync } from "./asyncAttempt.ts"
import { loadOf } from "./unloadedKind.ts"

/** Returns a kind that is not built in, with everything that runs its jobs. Throws `TypeError` for anything but a kind. */
export const ownKind = (kind: Kind): JobKind => {
  const load = loadOf(kind)
  if (load !== undefined) return load({ JobKind, runAsync })
  if (typeof fieldOf(kind, "run") === "function") return kind as JobKind
  throw new TypeError("expected a kind created by jobKind() or JobKind()")
}
