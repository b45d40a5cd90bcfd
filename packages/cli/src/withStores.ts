import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type { StoreUnavailable } from "@kiln/core/domain"
import { IdGenerator } from "@kiln/core/ports"
import type { CommandFailed } from "./CommandFailed.ts"
import { requireDatabase } from "./database/requireDatabase.ts"
import { openStoresBriefly, type InitFlag, type Stores } from "./openStores.ts"
import { readEnvironment } from "./readEnvironment.ts"
import type { Settings } from "./Settings.ts"
import { databaseSilent } from "./startProblems.ts"

/** Services of commands: the records, and generators for new ones. */
export type CommandNeeds = Stores | IdGenerator | SecureRandom.SecureRandom

/** Runs a command on the stores, even while a server is running on them. */
export const withStores = <A, R>(
  command: Effect.Effect<A, CommandFailed | StoreUnavailable, R>,
): Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds> | InitFlag> => withSettings(() => command)

/**
 * Like `withStores`, for a command that sets up an installation and may begin one. `check` fails for arguments that are wrong whatever
 * the installation contains, before one begins.
 */
export const beginStores = <A, R>(
  check: Effect.Effect<void, CommandFailed>,
  command: Effect.Effect<A, CommandFailed | StoreUnavailable, R>,
): Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds> | InitFlag> => withSettings(() => command, { begin: check })

/** Like `withStores`, for a command that also needs other settings. `begin`: see `requireDatabase`. */
export const withSettings = <A, R>(
  command: (settings: Settings) => Effect.Effect<A, CommandFailed | StoreUnavailable, R>,
  { begin }: { readonly begin?: Effect.Effect<void, CommandFailed> } = {},
): Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds> | InitFlag> =>
  Effect.gen(function* () {
    const settings = yield* readEnvironment
    yield* requireDatabase(settings.database, begin)
    return yield* command(settings).pipe(
      Effect.catchTag("StoreUnavailable", (error) => Effect.fail(databaseSilent(error))),
      Effect.provide(Layer.mergeAll(openStoresBriefly(settings), IdGenerator.layer, SecureRandom.layerWebCrypto)),
    )
  })
