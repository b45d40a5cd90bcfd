import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Board, PriceSnapshot, StoreUnavailable, SwitchName } from "../domain/index.ts"
import type { ProviderStanding } from "../providers/index.ts"

/** One version of a price. */
export interface PriceVersion extends PriceSnapshot {
  readonly active: boolean
  /** Unix milliseconds. */
  readonly createdAt: number
}

/** What a worker process says of itself. */
export interface PublishedWorker {
  readonly workerId: string
  /** Kinds it can serve live. */
  readonly liveKinds: ReadonlyArray<string>
  /** Its live providers. */
  readonly providers: ReadonlyArray<ProviderStanding>
}

/** The operator's switches and prices, and what the running workers publish. Everything is off in a new installation. */
export class Switchboard extends Context.Service<
  Switchboard,
  {
    readonly readBoard: Effect.Effect<Board, StoreUnavailable>
    /** Pauses a kind of job, or lets it go on. Of a kind nobody knows as well: the store does not know kinds. */
    readonly pauseKind: (kind: string, paused: boolean) => Effect.Effect<void, StoreUnavailable>
    readonly setSwitch: (name: SwitchName, on: boolean) => Effect.Effect<void, StoreUnavailable>
    /** Adds a version; an active price stays active with it, for new jobs. */
    readonly setPrice: (price: Omit<PriceSnapshot, "version">) => Effect.Effect<PriceVersion, StoreUnavailable>
    /** `false` when no such price was ever set. */
    readonly activatePrice: (name: string, active: boolean) => Effect.Effect<boolean, StoreUnavailable>
    /** All versions, by name and version. */
    readonly listPrices: Effect.Effect<ReadonlyArray<PriceVersion>, StoreUnavailable>
    /** Says what a worker process can serve live, for the next `ttlMs` milliseconds. */
    readonly publishWorker: (
      worker: PublishedWorker & { readonly ttlMs: number },
    ) => Effect.Effect<void, StoreUnavailable>
    /** What workers published and still counts, by worker. */
    readonly listWorkers: Effect.Effect<ReadonlyArray<PublishedWorker>, StoreUnavailable>
  }
>()("@kiln/core/ports/Switchboard") {}
