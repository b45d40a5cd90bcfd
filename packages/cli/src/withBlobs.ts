import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { EngineConfig } from "@kiln/core/effect"
import type { BlobStore } from "@kiln/core/ports"
import type { StoreCopied } from "@kiln/core"
import { BlobGuard, requireOriginal, type StoreBehindBlobs } from "@kiln/core/worker"
import type { CommandFailed } from "./CommandFailed.ts"
import type { ForeignBlobStore, UnmarkedBlobStore } from "./installation/claimBlobStore.ts"
import { installationProblems } from "./installation/layerInstallation.ts"
import { engineSettings } from "./KilnConfig.ts"
import { blobsUnusable, layerBlobs } from "./layerBlobs.ts"
import { loadConfig } from "./loadModule.ts"
import type { InitFlag } from "./openStores.ts"
import type { Settings } from "./Settings.ts"
import { type CommandNeeds, withSettings } from "./withStores.ts"

type Failure =
  | CommandFailed
  | StoreUnavailable
  | BlobUnavailable
  | StoreBehindBlobs
  | StoreCopied
  | ForeignBlobStore
  | UnmarkedBlobStore

/** Runs a command on the stores and the blob store, even while a server is running on them. Refuses records that are a copy. */
export const withBlobs = <A, R>(command: (settings: Settings) => Effect.Effect<A, Failure, R>) =>
  withAnyBlobs((settings) => Effect.andThen(requireOriginal, command(settings)))

/** Like `withBlobs`, for a command that also works on a copy. */
export const withAnyBlobs = <A, R>(
  command: (settings: Settings) => Effect.Effect<A, Failure, R>,
): Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds | BlobStore | BlobGuard> | InitFlag> =>
  withSettings((settings) =>
    Effect.gen(function* () {
      const engine = engineSettings(yield* loadConfig(settings.configPath), settings.engine)
      return yield* command(settings).pipe(
        Effect.provide(BlobGuard.layer),
        Effect.provide(Layer.merge(layerBlobs(settings), Layer.succeed(EngineConfig, engine))),
        Effect.catchTags({
          ...installationProblems(settings),
          BlobUnavailable: (error: BlobUnavailable) => Effect.fail(blobsUnusable(error)),
        }),
      )
    }),
  ) as Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds | BlobStore | BlobGuard> | InitFlag>
