import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type {
  Board,
  PriceSnapshot,
  ProjectId,
  SpendCap,
  Spending,
  SpendOwner,
  StoreUnavailable,
  WorkerScope,
} from "../domain/index.ts"
import type { ProviderStanding } from "../providers/circuitBreaker.ts"

/** One version of a price. */
export interface PriceVersion extends PriceSnapshot {
  readonly active: boolean
  /** Unix milliseconds. */
  readonly createdAt: number
}

/** A worker process's published state. */
export interface PublishedWorker {
  readonly workerId: string
  /** Job kinds it can serve live. */
  readonly liveKinds: ReadonlyArray<string>
  /** Its live providers. */
  readonly providers: ReadonlyArray<ProviderStanding>
  /** The kinds it runs, and its limits; missing for a worker of an earlier version. */
  readonly scope?: WorkerScope
}

/** The operator's switches and prices, and the state that running workers publish. Everything is off in a new installation. */
export class Switchboard extends Context.Service<
  Switchboard,
  {
    readonly readBoard: Effect.Effect<Board, StoreUnavailable>
    /** Pauses or resumes a job kind. Accepts any name, because the store does not know the kinds. */
    readonly pauseKind: (kind: string, paused: boolean) => Effect.Effect<void, StoreUnavailable>
    /** Turns a switch on or off. Accepts any name, because the store does not know the kinds. */
    readonly setSwitch: (name: string, on: boolean) => Effect.Effect<void, StoreUnavailable>
    /** Adds a version of a price. If the price is active, new jobs use this version. */
    readonly setPrice: (price: Omit<PriceSnapshot, "version">) => Effect.Effect<PriceVersion, StoreUnavailable>
    /** Activates or deactivates a price. Returns `false` if no such price was ever set. */
    readonly activatePrice: (name: string, active: boolean) => Effect.Effect<boolean, StoreUnavailable>
    /** Lists all versions of all prices, by name and version. */
    readonly listPrices: Effect.Effect<ReadonlyArray<PriceVersion>, StoreUnavailable>
    /**
     * Sets how many jobs of a project may run at the same time in all processes, for each mode: at least 1, 0 for no limit, or `null`
     * for the limit in the settings of each process. Accepts any project.
     */
    readonly limitProject: (projectId: ProjectId, concurrency: number | null) => Effect.Effect<void, StoreUnavailable>
    /**
     * Sets the spend cap of a project or a key, in place of an earlier one; `null` removes it. It holds for jobs that are accepted
     * from now on. Charges of the current month count from the start; jobs accepted before reserve nothing and count when they are
     * charged.
     */
    readonly setSpendCap: (owner: SpendOwner, cap: SpendCap | null) => Effect.Effect<void, StoreUnavailable>
    /** Lists all spend caps with what counts against them now, by owner. */
    readonly listSpending: Effect.Effect<ReadonlyArray<Spending>, StoreUnavailable>
    /** Publishes a worker process's state, valid for the next `ttlMs` milliseconds. */
    readonly publishWorker: (
      worker: PublishedWorker & { readonly ttlMs: number },
    ) => Effect.Effect<void, StoreUnavailable>
    /** Lists the published workers whose entry has not expired, by worker. */
    readonly listWorkers: Effect.Effect<ReadonlyArray<PublishedWorker>, StoreUnavailable>
  }
>()("@kiln/core/ports/Switchboard") {}
