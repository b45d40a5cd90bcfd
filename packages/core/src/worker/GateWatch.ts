import { Clock, Context, Effect, Layer } from "effect"
import { type Board, type Gate, missingPrerequisites, type StoreUnavailable, withForcedOff } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { Switchboard } from "../ports/index.ts"

/** A switch thrown must stop provider calls within a second, so nothing older than this counts. */
const maxAgeMs = 500

/** What live jobs are missing right now, without asking the store before every step. */
export class GateWatch extends Context.Service<
  GateWatch,
  {
    /** Empty when the gate is open. */
    readonly missing: (gate: Gate) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  }
>()("@kiln/core/worker/GateWatch") {
  static readonly layer = Layer.effect(
    GateWatch,
    Effect.gen(function* () {
      const switchboard = yield* Switchboard
      const { forcedOff } = yield* EngineConfig
      let latest: { readonly board: Board; readonly readAt: number } | undefined
      const board = Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        if (latest === undefined || now - latest.readAt >= maxAgeMs || now < latest.readAt)
          latest = { board: withForcedOff(yield* switchboard.readBoard, forcedOff), readAt: now }
        return latest.board
      })
      return GateWatch.of({
        // This worker serves the kind itself, so no other one has to.
        missing: (gate) =>
          Effect.map(board, (now) => missingPrerequisites(gate, { ...now, liveKinds: [...now.liveKinds, gate.kind] })),
      })
    }),
  )
}
