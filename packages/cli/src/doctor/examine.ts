import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import { EngineConfig } from "@kiln/core/effect"
import { causeMessage, type CommandFailed } from "../CommandFailed.ts"
import { engineSettings } from "../KilnConfig.ts"
import { loadConfig } from "../loadModule.ts"
import { type DatabasePlace, describeDatabase } from "../database/DatabasePlace.ts"
import { databaseProblem } from "../database/databaseProblem.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { describeBlobs, layerBlobs, localFilesHint } from "../layerBlobs.ts"
import type { Environment, Settings } from "../Settings.ts"
import { type Check, ok, problem, skipped } from "./Check.ts"
import { checkBlobs } from "./checkBlobs.ts"
import { checkCopy } from "./checkCopy.ts"
import { checkInstallation } from "./checkInstallation.ts"
import { checkOrphans } from "./checkOrphans.ts"
import { checkSettings } from "./checkSettings.ts"
import { checkStore } from "./checkStore.ts"

/** Turns a failure of a check into its finding. */
const orProblem =
  (name: string, database: DatabasePlace) =>
  <R>(
    look: Effect.Effect<ReadonlyArray<Check>, StoreUnavailable | BlobUnavailable | CommandFailed, R>,
  ): Effect.Effect<ReadonlyArray<Check>, never, R> =>
    look.pipe(
      Effect.catch((error) => {
        const message =
          error._tag === "StoreUnavailable"
            ? databaseProblem(database, error.cause).message
            : error._tag === "BlobUnavailable"
              ? `the blob store cannot be used: ${causeMessage(error.cause)}`
              : error.message
        return Effect.succeed([problem(name, message)])
      }),
    )

const examineBlobs = (
  store: StoreInspection,
): Effect.Effect<ReadonlyArray<Check>, StoreUnavailable | BlobUnavailable, BlobStore> =>
  Effect.gen(function* () {
    const installation = yield* checkInstallation(store)
    return installation.status === "problem"
      ? [installation, skipped("blobs", "skipped: they belong to another installation")]
      : [
          installation,
          yield* checkBlobs(store),
          ...((yield* store.migrations).pending.length === 0 ? [yield* checkOrphans(store)] : []),
        ]
  })

const examineDatabase = (settings: Settings): Effect.Effect<ReadonlyArray<Check>, CommandFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const { database } = settings
    const store = yield* (yield* storeMaintenance(database)).inspect
    if (store === undefined)
      return [
        problem(
          "database",
          `${describeDatabase(database)} has no kiln schema yet: kiln serve or kiln migrate creates it`,
        ),
      ]
    const records = yield* orProblem("records", database)(checkStore(store))
    const found = [ok("database", describeDatabase(database)), ...records]
    if ((yield* Effect.orElseSucceed(store.migrations, () => undefined))?.applied.length === 0) return found
    found.push(...(yield* orProblem("copy", database)(Effect.map(checkCopy(store), (check) => [check]))))
    const config = yield* Effect.orElseSucceed(loadConfig(settings.configPath), () => ({}))
    const hint = localFilesHint(settings)
    const reached = [
      ...(settings.blobs._tag === "S3" ? [ok("bucket", `${describeBlobs(settings)} can be listed`)] : []),
      ...(hint === undefined ? [] : [ok("machines", hint)]),
    ]
    const blobs = Effect.map(examineBlobs(store), (checks) => [...reached, ...checks]).pipe(
      Effect.provide(layerBlobs(settings)),
      Effect.provideService(EngineConfig, engineSettings(config, settings.engine)),
    )
    return [...found, ...(yield* orProblem("blobs", database)(blobs))]
  })

/** Checks all parts of an installation. Changes nothing, and can run next to a server. */
export const examine = (environment: Environment): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const { check, settings } = yield* checkSettings(environment)
    if (settings === undefined) return [check, skipped("database", "skipped: the settings are invalid")]
    return [check, ...(yield* orProblem("database", settings.database)(examineDatabase(settings)))]
  }).pipe(Effect.scoped)
