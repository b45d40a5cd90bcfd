import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoreUnavailable } from "@kiln/core/domain"
import { EngineConfig } from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import type { CommandFailed } from "./CommandFailed.ts"
import { configuredKinds, engineSettings } from "./KilnConfig.ts"
import { loadConfig } from "./loadModule.ts"
import type { InitFlag } from "./openStores.ts"
import { type CommandNeeds, withSettings } from "./withStores.ts"

/** Runs a command that only reads, with the settings and the kinds of this process. Unlike `withOperator`, it writes nothing itself. */
export const withKinds = <A, R>(
  command: Effect.Effect<A, CommandFailed | StoreUnavailable, R>,
): Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds> | InitFlag> =>
  withSettings((settings) =>
    Effect.gen(function* () {
      const config = yield* loadConfig(settings.configPath)
      return yield* Effect.provide(
        command,
        Layer.mergeAll(
          Layer.succeed(EngineConfig, engineSettings(config, settings.engine)),
          Layer.succeed(JobKinds, configuredKinds(config)),
        ),
      )
    }),
  ) as Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds> | InitFlag>
