import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Board, StoreUnavailable } from "../../domain/index.ts"
import { type Gate, missingPrerequisites, withForcedOff } from "../../domain/Gate.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { Switchboard } from "../../ports/index.ts"

/** Turning a switch off must stop provider calls within a second, so an older board is read again. */
const maxAgeNanos = 500_000_000n
/** A board in use is read again in the background from this age on, so that jobs seldom wait for it. */
const refreshAgeNanos = maxAgeNanos / 2n
/** Maximum number of reads when the answers arrive too late to be used. */
const maxReads = 3

/** Caches the operator's switches, prices and pauses, so that not every step reads the store. */
export class GateWatch extends Context.Service<
  GateWatch,
  {
    /** Returns the prerequisites that are missing; empty if the gate is open. */
    readonly missing: (gate: Gate) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
    /** The switchboard as it was at most half a second ago. */
    readonly board: Effect.Effect<Board, StoreUnavailable>
  }
>()("@kiln/core/worker/GateWatch") {
  static readonly layer = Layer.effect(
    GateWatch,
    Effect.gen(function* () {
      const switchboard = yield* Switchboard
      const { forcedOff } = yield* EngineConfig
      const events = yield* JobEvents
      const scope = yield* Effect.scope
      let boardChanges = 0
      yield* Effect.acquireRelease(
        Effect.sync(() => events.listenTo("board", () => void (boardChanges += 1))),
        (stopListening) => Effect.sync(stopListening),
      )
      let latest: { readonly board: Board; readonly askedAtNanos: bigint; readonly changes: number } | undefined
      let refreshing = false

      /** Reads the board, and returns whether the answer is recent enough to be used. */
      const read = Effect.gen(function* () {
        const askedAtNanos = yield* Clock.monotonicTimeNanos
        const changes = boardChanges
        const board = withForcedOff(yield* switchboard.readBoard, forcedOff)
        latest = { board, askedAtNanos, changes }
        // The answer may describe any moment since the read began. If it took long, or this process was suspended, it may be
        // outdated.
        return (yield* Clock.monotonicTimeNanos) - askedAtNanos < maxAgeNanos ? board : undefined
      })
      const refresh = Effect.ensuring(
        Effect.ignore(read),
        Effect.sync(() => {
          refreshing = false
        }),
      )

      const board = Effect.gen(function* () {
        const now = yield* Clock.monotonicTimeNanos
        const ageNanos = latest?.changes === boardChanges ? now - latest.askedAtNanos : maxAgeNanos
        if (latest !== undefined && ageNanos < maxAgeNanos) {
          if (ageNanos >= refreshAgeNanos && !refreshing) {
            refreshing = true
            yield* Effect.forkIn(refresh, scope)
          }
          return latest.board
        }
        for (let asked = 0; asked < maxReads; asked++) {
          const answer = yield* read
          if (answer !== undefined) return answer
        }
        return yield* Effect.fail(
          new StoreUnavailable({ operation: "readBoard", cause: "switchboard reads were stale" }),
        )
      })
      return GateWatch.of({
        board,
        missing: (gate) => Effect.map(board, (now) => missingOf(gate, now)),
      })
    }),
  )
}

/** Returns the missing prerequisites of a job for a worker, which serves the kind and charges the price of its acceptance. */
export const missingOf = (gate: Gate, board: Board): ReadonlyArray<string> =>
  missingPrerequisites({ ...gate, meters: [], liveWorker: null }, board, 0)
