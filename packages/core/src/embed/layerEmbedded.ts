import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  EngineConfig,
  type EngineSettings,
  type FinishHandler,
  FinishHandlers,
  layerCrypto,
  layerEngine,
} from "../engine/index.ts"
import { InstalledKinds } from "../kinds/installedKinds.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import {
  insideOf,
  type BlobStore,
  type DeliveryStore,
  type JobDirectory,
  type JobStore,
  type KeyDirectory,
  MediaProbe,
  type ScheduleStore,
  type SecretStore,
  type Switchboard,
  type UploadStore,
} from "../ports/index.ts"
import { Providers, type ProviderSet } from "../providers/index.ts"
import { layerSweeps, Worker } from "../worker/index.ts"
import type { EmbeddedServices } from "./embeddedContext.ts"
import { RestoreContext } from "./asyncAttempt.ts"
import type { CallerContext } from "./CallerContext.ts"
import type { EngineParts } from "./EngineOptions.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import { layerLog } from "./log.ts"

type Stores =
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | ScheduleStore
  | DeliveryStore

/** Overrides inside an engine that does not run in real time. */
export interface EmbeddedInside {
  /** References provided to everything inside, for example another `Clock`. */
  readonly references?: Layer.Layer<never>
  /** `false` if the caller runs the sweeps itself. */
  readonly sweeps?: boolean
}

/** The parts of an engine, with all defaults applied. */
export interface Assembly
  extends Pick<EngineParts<Kind, unknown, unknown, boolean>, "store" | "blobs" | "probe" | "log">, EmbeddedInside {
  readonly kinds: ReadonlyArray<JobKind>
  readonly providers: { readonly sandbox: ProviderSet; readonly live: ProviderSet }
  readonly settings: EngineSettings
  readonly restore?: CallerContext["restore"] | undefined
  readonly finishHandlers: ReadonlyMap<string, FinishHandler>
}

const noProbe = Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: undefined }) })

const examples = { store: "sqliteStore({ path })", blobs: "fileBlobs({ directory })", probe: "audioProbe()" } as const

/** Returns the layer inside an adapter. Throws `TypeError` for anything else, whatever its static type. */
const layerIn = <Service>(adapter: object, what: keyof typeof examples): Layer.Layer<Service, unknown> => {
  const inside = typeof adapter === "object" && adapter !== null ? insideOf(adapter) : undefined
  if (!Layer.isLayer(inside)) throw new TypeError(`"${what}" must be a kiln adapter, such as ${examples[what]}`)
  return inside as Layer.Layer<Service, unknown>
}

/** Builds the engine and a worker that waits to be started, on these adapters. */
export const layerEmbedded = (assembly: Assembly): Layer.Layer<EmbeddedServices, unknown> => {
  const { blobs, kinds, log, probe, providers, settings, store } = assembly
  const references = Layer.mergeAll(
    Layer.succeed(EngineConfig, settings),
    Layer.succeed(InstalledKinds, kinds),
    Layer.succeed(FinishHandlers, assembly.finishHandlers),
    layerLog(log),
    Layer.succeed(RestoreContext, assembly.restore),
    assembly.references ?? Layer.empty,
  )
  const adapters = Layer.mergeAll(
    layerIn<Stores>(store, "store"),
    layerIn<BlobStore>(blobs, "blobs"),
    probe === undefined ? noProbe : layerIn<MediaProbe>(probe, "probe"),
    Layer.succeed(Providers, providers),
    layerCrypto,
  )
  const sweeps = assembly.sweeps === false ? Layer.empty : layerSweeps
  const engine = Layer.provideMerge(Layer.merge(Worker.layer, sweeps), layerEngine)
  return Layer.provideMerge(engine, adapters).pipe(Layer.provideMerge(references))
}
