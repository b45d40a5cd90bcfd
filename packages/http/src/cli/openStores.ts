import { accessSync, constants, mkdirSync } from "node:fs"
import { dirname } from "node:path"
import { Effect, Layer } from "effect"
import { SqliteStores } from "@kiln/adapter-sqlite"
import type { JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { causeMessage, type CommandFailed, failed } from "./CommandFailed.ts"
import type { Settings } from "./Settings.ts"

/** All records of an installation. */
export type Stores = JobStore | UploadStore | KeyDirectory | Switchboard | SecretStore

/** A clear word before anything is opened in it. */
const prepareDirectory = (path: string): Effect.Effect<void, CommandFailed> =>
  Effect.try({
    try: () => {
      mkdirSync(path, { recursive: true, mode: 0o700 })
      accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    },
    catch: (cause) =>
      failed(
        `cannot write to the data directory ${path} (${causeMessage(cause)}): set KILN_DATA_DIR to one that this user may write`,
      ),
  })

/** Opens the stores that the settings name, whether or not a server is running on them. */
export const openStores = (settings: Settings): Layer.Layer<Stores, CommandFailed> => {
  const stores: Layer.Layer<Stores, CommandFailed> = SqliteStores.layer({ path: settings.databasePath }).pipe(
    Layer.catch((error) =>
      Layer.effectContext(
        Effect.fail(failed(`cannot open the database ${settings.databasePath}: ${causeMessage(error.cause)}`)),
      ),
    ),
  )
  return Layer.unwrap(Effect.as(prepareDirectory(dirname(settings.databasePath)), stores))
}
