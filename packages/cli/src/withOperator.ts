import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoreUnavailable } from "@kiln/core/domain"
import { EngineConfig, FinishHandlers, finishHandlersOf, Fingerprint, JobEvents, Operator } from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import { WakeUp } from "@kiln/core/ports"
import type { CommandFailed } from "./CommandFailed.ts"
import { configuredKinds, engineSettings } from "./KilnConfig.ts"
import { loadConfig } from "./loadModule.ts"
import type { InitFlag } from "./openStores.ts"
import { type CommandNeeds, withSettings } from "./withStores.ts"

/** Runs a command with the verbs of an operator, which also wake up the workers of other processes where the store can. */
export const withOperator = <A, R>(
  command: (operator: Operator["Service"]) => Effect.Effect<A, CommandFailed | StoreUnavailable, R>,
): Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds> | InitFlag> =>
  withSettings((settings) =>
    Effect.gen(function* () {
      const config = yield* loadConfig(settings.configPath)
      const engine = engineSettings(config, settings.engine)
      const kinds = configuredKinds(config)
      const layer = Operator.layer.pipe(
        Layer.provide(Layer.mergeAll(Fingerprint.layer, JobEvents.layer, WakeUp.layer)),
        Layer.provideMerge(Layer.succeed(EngineConfig, engine)),
        Layer.provideMerge(Layer.succeed(JobKinds, kinds)),
        // The jobs that it submits are delivered like those of a server.
        Layer.provideMerge(Layer.succeed(FinishHandlers, finishHandlersOf(kinds, undefined, engine))),
      )
      return yield* Effect.provide(
        Effect.flatMap(Operator, (operator) => command(operator)),
        layer,
      )
    }),
  ) as Effect.Effect<A, CommandFailed, Exclude<R, CommandNeeds> | InitFlag>
