import { Context, Effect, Exit, Scope } from "effect"
import { TestClock } from "effect/testing"
import { afterAll, beforeAll } from "vitest"
import type { StoreUnavailable } from "@kiln/core/domain"
import {
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  ScheduleStore,
  SecretStore,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { arrangeEveryState, type Stores } from "@kiln/conformance"
import { makeKeyDirectory, makeScheduleStore, makeSecretStore } from "@kiln/sql-store"
import type { Database } from "../../src/Database.ts"
import { openDatabase } from "../../src/openDatabase.ts"
import { makeSqliteJobDirectory } from "../../src/jobs/directory.ts"
import { makeSqliteJobStore } from "../../src/jobs/SqliteJobStore.ts"
import { makeSqliteDeliveryStore } from "../../src/coldStores.ts"
import { makeSqliteSwitchboard } from "../../src/board.ts"
import { transactionsOf } from "../../src/transactionsOf.ts"
import { makeSqliteUploadStore } from "../../src/uploads.ts"
import { temporaryFile } from "./temporaryDirectory.ts"

export const storesOf = (database: Database) => ({
  jobs: makeSqliteJobStore(database),
  directory: makeSqliteJobDirectory(database),
  uploads: makeSqliteUploadStore(database),
  keys: makeKeyDirectory(transactionsOf(database)),
  board: makeSqliteSwitchboard(database),
  secrets: makeSecretStore(transactionsOf(database)),
  schedules: makeScheduleStore(transactionsOf(database)),
  deliveries: makeSqliteDeliveryStore(database),
})

/** Provides the stores of an open database. */
export const onDatabase =
  (database: Database) =>
  <A, E>(use: Effect.Effect<A, E, Stores>): Effect.Effect<A, E> => {
    const { board, deliveries, directory, jobs, keys, schedules, secrets, uploads } = storesOf(database)
    return Effect.provideContext(
      use,
      Context.make(JobStore, jobs).pipe(
        Context.add(JobDirectory, directory),
        Context.add(UploadStore, uploads),
        Context.add(KeyDirectory, keys),
        Context.add(Switchboard, board),
        Context.add(SecretStore, secrets),
        Context.add(ScheduleStore, schedules),
        Context.add(DeliveryStore, deliveries),
      ),
    )
  }

/** A database with one job in every state: see `arrangeEveryState`. */
export const everyState: Effect.Effect<Database, StoreUnavailable, Scope.Scope> = Effect.gen(function* () {
  const database = yield* openDatabase({ path: yield* temporaryFile })
  yield* onDatabase(database)(arrangeEveryState)
  return database
})

/** Returns the database of the tests of a `describe`, which leave it as it is: arranging it takes longer than most of them. */
export const sharedEveryState = (): (() => Database) => {
  const scope = Scope.makeUnsafe()
  let shared: Database | undefined
  beforeAll(async () => {
    shared = await Effect.runPromise(everyState.pipe(Scope.provide(scope), Effect.provide(TestClock.layer())))
  })
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  return () => {
    if (shared === undefined) throw new Error("the database is arranged before the first test")
    return shared
  }
}
