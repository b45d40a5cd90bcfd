import type * as Effect from "effect/Effect"
import type { AttemptContext, AttemptError, AttemptResult } from "../kinds/AttemptContext.ts"
import type { builtIn as kinds } from "../kinds/builtInKinds.ts"
import type { RunBatch } from "../kinds/JobBatch.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import { fieldOf } from "../providers/checks.ts"
import type { AsyncBatchRun } from "./AttemptTypes.ts"
import type { AsyncRun } from "./JobKindOptions.ts"

// A file of its own, because its types contain those of Effect, and the declarations of `@kiln/core` do not.

/** Converts the kinds of a program into those that the engine runs. Loads Effect. */
export interface KindTools {
  readonly JobKind: typeof JobKind
  readonly runAsync: (run: AsyncRun) => (context: AttemptContext<unknown>) => Effect.Effect<AttemptResult, AttemptError>
  readonly runAsyncBatch: (run: AsyncBatchRun) => RunBatch<unknown>
}

type LoadOwn = (tools: KindTools) => JobKind
type LoadBuiltIn = (all: typeof kinds) => JobKind

interface Unloaded {
  readonly name: string
  /** The field that names the upload, for `jobRoute`. */
  readonly upload?: string | undefined
}

const unloaded = ({ name, upload }: Unloaded, load: object): Kind =>
  ({ name, upload, "~kind": undefined, ...load }) as object as Kind

/** Creates a kind that the engine completes when it is created, so that a program can define kinds before it loads Effect. */
export const unloadedKind = ({ load, ...kind }: Unloaded & { readonly load: LoadOwn }): Kind =>
  unloaded(kind, { "~load": load })

/** The same for a built-in kind, which also loads Effect Schema. */
export const unloadedBuiltIn = ({ from, ...kind }: Unloaded & { readonly from: LoadBuiltIn }): Kind =>
  unloaded(kind, { "~builtIn": from })

/** Returns how to complete a kind; `undefined` if it is complete or built in. */
export const loadOf = (kind: Kind): LoadOwn | undefined => fieldOf(kind, "~load") as LoadOwn | undefined

/** Returns how to choose this kind from the built-in ones; `undefined` for a kind of the program. */
export const builtInOf = (kind: Kind): LoadBuiltIn | undefined => fieldOf(kind, "~builtIn") as LoadBuiltIn | undefined
