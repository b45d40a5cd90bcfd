import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type {
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  ScheduleStore,
  SecretStore,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import type { Declared, Place } from "./capabilities.ts"

/** The ports whose records live in one store, because one transaction spans them. */
export type Stores =
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | ScheduleStore
  | DeliveryStore

/** The way in which the tests open stores. Store time must be the Effect `Clock`, so that leases end in virtual time, to the millisecond. */
export type Opening<R> =
  | {
      /** Each build must open a new, empty store (a new file, a new schema) and remove it with its scope. */
      readonly layer: Layer.Layer<R, unknown>
      readonly place?: never
    }
  | {
      /** A store that outlives its layer; its durability is tested as well. */
      readonly place: Place<R>
      readonly layer?: never
    }

/** A store under test, through the ports `R`. */
export type StoreUnderTest<R = Stores> = Opening<R> &
  Declared & {
    /** Appears in the names of the tests. */
    readonly name: string
  }

/** One requirement of a store. It runs on an empty store at virtual time 0, and fails or dies if the store violates it. */
export interface Check<R = Stores> {
  readonly name: string
  readonly run: Effect.Effect<void, unknown, R>
}

/** The checks of one verb, or of several verbs for one promise. */
export interface Section<R = Stores> {
  /** For example `JobStore.claimJobs`. */
  readonly name: string
  readonly checks: ReadonlyArray<Check<R>>
}

export const check = <R>(name: string, run: Effect.Effect<void, unknown, R>): Check<R> => ({ name, run })
