import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  type Engine,
  EngineConfig,
  type Fingerprint,
  type EngineSettings,
  FinishHandlers,
  finishHandlersOf,
  layerCrypto,
  layerEngine,
  type JobEvents,
  type Operator,
  providerSet,
} from "@kiln/core/effect"
import { JobKinds, portsOf } from "@kiln/core/kinds"
import type { BlobStore, IdGenerator, MediaProbe, WakeUp } from "@kiln/core/ports"
import { Providers, type ProviderSet } from "@kiln/core/providers"
import { layerSweeps, runDeliveries, runSchedules, Worker } from "@kiln/core/worker"
import { MediaProbeLive } from "@kiln/media-probe"
import { sandboxProviders } from "@kiln/provider-sandbox"
import {
  HttpConfig,
  HttpService,
  layerProviderDetails,
  layerWorkerReadiness,
  layerWriteReadiness,
  Readiness,
} from "@kiln/http"
import { type CommandFailed, misused } from "./CommandFailed.ts"
import { layerInstallation } from "./installation/layerInstallation.ts"
import { configuredKinds, engineSettings, type KilnConfig } from "./KilnConfig.ts"
import { layerBlobs } from "./layerBlobs.ts"
import { databaseSilent, listenProblem } from "./startProblems.ts"
import { loadConfig } from "./loadModule.ts"
import { loadOpenAi } from "./loadOpenAi.ts"
import { openStores, type Stores } from "./openStores.ts"
import type { Settings } from "./Settings.ts"

/** Services shared by all parts of the service in this process. */
export type Base =
  | Stores
  | Engine
  | Operator
  | BlobStore
  | Providers
  | MediaProbe
  | IdGenerator
  | WakeUp
  | JobEvents
  | Fingerprint
  | Readiness

/** Loads the providers of live jobs. */
const liveProviders = (settings: Settings, config: KilnConfig): Effect.Effect<ProviderSet, CommandFailed> => {
  const { provider } = settings
  if (provider === undefined) return Effect.succeed(providerSet(config.providers, portsOf(configuredKinds(config))))
  if (config.providers !== undefined)
    return Effect.fail(
      misused("KILN_PROVIDER and the providers in KILN_CONFIG both configure live jobs: unset one of them"),
    )
  return provider._tag === "OpenAi" ? loadOpenAi(provider) : Effect.succeed(sandboxProviders({ steering: false }))
}

const layerReferences = (engine: EngineSettings, config: KilnConfig, settings: Settings): Layer.Layer<never> => {
  const kinds = configuredKinds(config)
  return Layer.mergeAll(
    Layer.succeed(EngineConfig, engine),
    Layer.succeed(JobKinds, kinds),
    Layer.succeed(FinishHandlers, finishHandlersOf(kinds, undefined, engine)),
    Layer.succeed(HttpConfig, settings.http),
  )
}

/** Provides the blob store, with its operations measured if that is asked for. */
const layerBlobsOf = (settings: Settings, isMeasured: boolean): ReturnType<typeof layerBlobs> =>
  isMeasured
    ? Layer.unwrap(
        Effect.map(
          Effect.promise(() => import("./telemetry/blobMetrics.ts")),
          ({ layerMeasuredBlobs }) => Layer.provide(layerMeasuredBlobs, layerBlobs(settings)),
        ),
      )
    : layerBlobs(settings)

/** Stores, blobs, providers and the engine. */
export const layerBase = (settings: Settings, isMeasured = false): Layer.Layer<Base, CommandFailed> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const config = yield* loadConfig(settings.configPath)
      const live = yield* liveProviders(settings, config)
      const engine = engineSettings(config, settings.engine)
      const adapters: Layer.Layer<Stores | BlobStore | Providers | MediaProbe, CommandFailed> = Layer.mergeAll(
        openStores(settings),
        layerBlobsOf(settings, isMeasured),
        Layer.succeed(Providers, { sandbox: sandboxProviders({ steering: true }), live }),
        MediaProbeLive.layer,
      )
      const base: Layer.Layer<Base, CommandFailed> = Layer.merge(layerWriteReadiness, layerProviderDetails).pipe(
        // Every process sweeps, regardless of its role, but only after blobs and records were verified to belong together.
        Layer.provideMerge(layerSweeps),
        Layer.provideMerge(Layer.merge(layerEngine, Readiness.layer)),
        Layer.provideMerge(layerInstallation(settings)),
        Layer.provideMerge(adapters),
        Layer.provide(layerCrypto),
        Layer.provideMerge(layerReferences(engine, config, settings)),
        Layer.catchTag("StoreUnavailable", (error) => Layer.effectContext(Effect.fail(databaseSilent(error)))),
      )
      return base
    }),
  )

/** Commands change schedules in other processes, so none ends a pause. */
const layerSchedules = Layer.effectDiscard(Effect.forkScoped(runSchedules(Effect.never)))

/** Calls `onFinished` of the kinds of the config file. */
const layerDeliveries = Layer.effectDiscard(Effect.forkScoped(runDeliveries))

/** Runs jobs in this process, and submits those of schedules. */
export const layerWorker: Layer.Layer<Worker, never, Base> = Layer.mergeAll(
  layerWorkerReadiness,
  layerSchedules,
  layerDeliveries,
).pipe(Layer.provideMerge(Worker.layerRunning))

/** Answers requests in this process. */
export const layerHttp: Layer.Layer<HttpService, CommandFailed, Base> = HttpService.layer.pipe(
  Layer.catch((error) => Layer.effectContext(Effect.fail(listenProblem(error)))),
)
