import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { JsonObject, StoreUnavailable } from "../domain/index.ts"

/** Figures of one minute. */
export interface HistoryMinute {
  /** The minute's start, in unix milliseconds of store time. */
  readonly at: number
  readonly figures: JsonObject
}

/** Number of minutes that a store keeps. */
export const keptMinutes = 25 * 60

/** A ring of figures by minute, for charts. Not every store has it. */
export class MinuteHistory extends Context.Service<
  MinuteHistory,
  {
    /**
     * Records the figures of the current minute, unless another process has, and removes those that are more than `keptMinutes` old.
     * Returns whether it recorded them.
     */
    readonly writeMinute: (figures: JsonObject) => Effect.Effect<boolean, StoreUnavailable>
    /** Returns the minutes of the last `withinMs` milliseconds, oldest first. */
    readonly listMinutes: (withinMs: number) => Effect.Effect<ReadonlyArray<HistoryMinute>, StoreUnavailable>
  }
>()("@kiln/core/ports/MinuteHistory") {}
