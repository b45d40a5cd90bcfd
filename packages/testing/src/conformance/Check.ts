import type { Effect, Layer } from "effect"
import type { JobStore, KeyDirectory, SecretStore, StoreCapabilities, Switchboard, UploadStore } from "@kiln/core/ports"

/** The ports whose records live in one store, because one transaction spans them. */
export type Stores = JobStore | UploadStore | KeyDirectory | Switchboard | SecretStore

/** A store to be examined. */
export interface StoreUnderTest {
  /** Appears in the names of the tests. */
  readonly name: string
  /**
   * Each build must open an empty store of its own (a new file, a new schema) and remove it with its
   * scope. Store time must be the Effect `Clock`, so that leases end in virtual time, to the millisecond.
   */
  readonly layer: Layer.Layer<Stores, unknown>
  /** What the store must declare of itself. */
  readonly capabilities: StoreCapabilities
}

/** One thing a store must do. It runs on an empty store at virtual time 0, and fails or dies where the store does not. */
export interface Check {
  readonly name: string
  readonly run: Effect.Effect<void, unknown, Stores>
}

/** What is asked of one verb, or of several for one promise. */
export interface Section {
  /** For example `JobStore.claimJobs`. */
  readonly name: string
  readonly checks: ReadonlyArray<Check>
}

export const check = (name: string, run: Effect.Effect<void, unknown, Stores>): Check => ({ name, run })
