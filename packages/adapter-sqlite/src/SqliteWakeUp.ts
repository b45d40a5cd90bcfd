import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { WakeUp } from "@kiln/core/ports"
import type { CommitWatch } from "./callers/CommitWatch.ts"

/** The wake-up within this process, which hears besides that something was committed elsewhere, though not what. */
export const makeSqliteWakeUp = (watch: CommitWatch): Effect.Effect<WakeUp["Service"], never, Scope.Scope> =>
  Effect.map(Layer.build(WakeUp.layer), (built) => {
    const within = Context.get(built, WakeUp)
    return WakeUp.of({ ...within, onFinished: (hear) => watch.onCommit(() => hear("any")) })
  })
