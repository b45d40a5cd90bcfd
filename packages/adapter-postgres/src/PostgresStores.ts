import { Context, Effect, Layer } from "effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore, WakeUp } from "@kiln/core/ports"
import { LaneNotes } from "./LaneNotes.ts"
import { openDatabase, type PostgresOptions } from "./openDatabase.ts"
import { makePostgresJobStore } from "./PostgresJobStore.ts"
import { makePostgresKeyDirectory } from "./PostgresKeyDirectory.ts"
import { makePostgresSecretStore } from "./PostgresSecretStore.ts"
import { makePostgresSwitchboard } from "./PostgresSwitchboard.ts"
import { makePostgresUploadStore } from "./PostgresUploadStore.ts"
import { hintOnce, makePostgresWakeUp } from "./PostgresWakeUp.ts"
import { noteTurns } from "./sql/nextClaimable.ts"

/**
 * All record stores in one schema of a Postgres database, for any number of processes on any number of machines. What a
 * verb returned for was committed with `synchronous_commit = on`. Store time is the database's clock. The database
 * holds secrets and request data: give its role to nobody else.
 *
 * Unless notifications are turned off, the layer brings the wake-up between processes as well.
 */
export const PostgresStores = {
  /** Fails with `StoreUnavailable` where the database cannot be reached, or its schema not brought up to date. */
  layer: (
    options: PostgresOptions,
  ): Layer.Layer<JobStore | UploadStore | KeyDirectory | Switchboard | SecretStore | WakeUp, StoreUnavailable> =>
    Layer.effectContext(
      Effect.gen(function* () {
        const { connections, database, heartbeats } = yield* openDatabase(options)
        const notifications = connections.ownSessions ? (options.notifications ?? true) : false
        const hint = notifications === false ? Effect.void : hintOnce(database, connections)
        const wakeUp =
          notifications === true
            ? yield* makePostgresWakeUp(connections, database)
            : yield* Effect.map(Layer.build(WakeUp.layer), (built) => Context.get(built, WakeUp))
        const notes = new LaneNotes(options.noteLanesEveryMs ?? 1_000)
        yield* Effect.addFinalizer(() =>
          Effect.ignore(database.read("LaneNotes.rest", (session) => noteTurns(session, notes.rest()))),
        )
        return Context.make(JobStore, makePostgresJobStore(database, heartbeats, notes)).pipe(
          Context.add(UploadStore, makePostgresUploadStore(database, heartbeats)),
          Context.add(KeyDirectory, makePostgresKeyDirectory(database)),
          Context.add(Switchboard, makePostgresSwitchboard(database, hint)),
          Context.add(SecretStore, makePostgresSecretStore(database)),
          Context.add(WakeUp, wakeUp),
        )
      }),
    ),
}
