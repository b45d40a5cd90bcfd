import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Board, type Gate, StoreUnavailable } from "../domain/index.ts"
import { missingPrerequisites, withForcedOff } from "../domain/Gate.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobEvents } from "../engine/JobEvents.ts"
import { Switchboard } from "../ports/index.ts"

/** A switch thrown must stop provider calls within a second, so nothing older than this counts. */
const maxAgeNanos = 500_000_000n
/** How often a board is asked for whose answers are too old when they come. */
const maxQuestions = 3

/** What the operator allows right now, without asking the store before every step. */
export class GateWatch extends Context.Service<
  GateWatch,
  {
    /** Empty when the gate is open. */
    readonly missing: (gate: Gate) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
    /** Kinds of which no job is to be begun. */
    readonly paused: Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  }
>()("@kiln/core/worker/GateWatch") {
  static readonly layer = Layer.effect(
    GateWatch,
    Effect.gen(function* () {
      const switchboard = yield* Switchboard
      const { forcedOff } = yield* EngineConfig
      const events = yield* JobEvents
      let boardChanges = 0
      yield* Effect.acquireRelease(
        Effect.sync(() => events.listenTo("board", () => void (boardChanges += 1))),
        (stopListening) => Effect.sync(stopListening),
      )
      let latest: { readonly board: Board; readonly askedAtNanos: bigint; readonly changes: number } | undefined
      const board = Effect.gen(function* () {
        for (let asked = 0; asked < maxQuestions; asked++) {
          const askedAtNanos = yield* Clock.monotonicTimeNanos
          const changes = boardChanges
          if (latest?.changes === changes && askedAtNanos - latest.askedAtNanos < maxAgeNanos) return latest.board
          const read = withForcedOff(yield* switchboard.readBoard, forcedOff)
          latest = { board: read, askedAtNanos, changes }
          // The answer describes some moment since the question. One that took long, or waited for a suspended process, says
          // nothing about now.
          if ((yield* Clock.monotonicTimeNanos) - askedAtNanos < maxAgeNanos) return read
        }
        return yield* Effect.fail(
          new StoreUnavailable({ operation: "readBoard", cause: "switchboard reads were stale" }),
        )
      })
      return GateWatch.of({
        paused: Effect.map(board, ({ pausedKinds }) => pausedKinds),
        // This worker serves the kind itself, and a job is charged by the price it was accepted with.
        missing: (gate) =>
          Effect.map(board, (now) => missingPrerequisites({ ...gate, meters: [], liveWorker: null }, now, 0)),
      })
    }),
  )
}
