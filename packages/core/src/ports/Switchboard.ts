import { Context, type Effect } from "effect"
import type { Board, PriceSnapshot, StoreUnavailable, SwitchName } from "../domain/index.ts"

/** One version of a price. */
export interface PriceVersion extends PriceSnapshot {
  readonly active: boolean
  /** Unix milliseconds. */
  readonly createdAt: number
}

/** The operator's switches and prices, and what the running workers publish. Everything is off in a new installation. */
export class Switchboard extends Context.Service<
  Switchboard,
  {
    readonly readBoard: Effect.Effect<Board, StoreUnavailable>
    readonly setSwitch: (name: SwitchName, on: boolean) => Effect.Effect<void, StoreUnavailable>
    /** Adds a version; an active price stays active with it, for new jobs. */
    readonly setPrice: (price: Omit<PriceSnapshot, "version">) => Effect.Effect<PriceVersion, StoreUnavailable>
    /** `false` when no such price was ever set. */
    readonly activatePrice: (name: string, active: boolean) => Effect.Effect<boolean, StoreUnavailable>
    /** All versions, by name and version. */
    readonly listPrices: Effect.Effect<ReadonlyArray<PriceVersion>, StoreUnavailable>
    /** Says which kinds a worker process can serve live, for the next `ttlMs` milliseconds. */
    readonly publishWorker: (worker: {
      readonly workerId: string
      readonly liveKinds: ReadonlyArray<string>
      readonly ttlMs: number
    }) => Effect.Effect<void, StoreUnavailable>
  }
>()("@kiln/core/ports/Switchboard") {}
