import type { builtIn } from "../kinds/builtInKinds.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import { fieldOf } from "../providers/checks.ts"
import type { runAsync } from "./asyncAttempt.ts"

/** What turns the kinds of this entry point into what the engine runs. It loads Effect and Effect Schema. */
export interface KindTools {
  readonly JobKind: typeof JobKind
  readonly builtIn: typeof builtIn
  readonly runAsync: typeof runAsync
}

interface UnloadedKind {
  readonly name: string
  /** The field that names the upload, for `jobRoute`. */
  readonly upload?: string | undefined
  readonly load: (tools: KindTools) => JobKind
}

/** Creates a kind that the engine completes when it is created, so that a program can define kinds before it loads Effect. */
export const unloadedKind = ({ load, name, upload }: UnloadedKind): Kind =>
  ({ name, upload, "~kind": undefined, "~load": load }) as object as Kind

/** Returns how to complete a kind; `undefined` if it is complete. */
export const loadOf = (kind: Kind): UnloadedKind["load"] | undefined =>
  fieldOf(kind, "~load") as UnloadedKind["load"] | undefined
