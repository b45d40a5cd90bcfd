import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import { isError } from "../domain/index.ts"
import { readSafely } from "../domain/realms.ts"
import { callSafely } from "../engine/callSafely.ts"
import {
  type Engine,
  EngineConfig,
  type EngineSettings,
  type FinishHandler,
  FinishHandlers,
  type JobEvents,
  type JobReader,
  layerCrypto,
  layerEngine,
  type Operator,
} from "../engine/index.ts"
import { InstalledKinds } from "../kinds/installedKinds.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import {
  type BlobStore,
  type DeliveryStore,
  type IdGenerator,
  insideOf,
  type JobDirectory,
  type JobStore,
  type KeyDirectory,
  MediaProbe,
  type ScheduleStore,
  type SecretStore,
  type Switchboard,
  type UploadStore,
  type WakeUp,
} from "../ports/index.ts"
import { Providers, type ProviderSet } from "../providers/index.ts"
import { layerSweeps, Worker } from "../worker/index.ts"
import { RestoreContext } from "./asyncAttempt.ts"
import type { CallerContext } from "./CallerContext.ts"
import type { EngineParts, LogEntry } from "./EngineOptions.ts"

/** The services of an embedded engine. */
export type EmbeddedServices =
  | Engine
  | Operator
  | Worker
  | JobEvents
  | JobReader
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | ScheduleStore
  | DeliveryStore
  | BlobStore
  | MediaProbe
  | Providers
  | IdGenerator
  | WakeUp

/**
 * The services with a scope that closes when the engine is stopped, before its worker and its stores. For code built on the
 * engine.
 */
export type EmbeddedContext = Context.Context<EmbeddedServices | Scope.Scope>

/** On the engine itself: after a development server has reloaded modules, this one may exist twice. */
const contextKey = Symbol.for("@kiln/core/embeddedContext")

/** Keeps the services of an engine for `embeddedContext`. */
export const keepContext = (engine: object, context: EmbeddedContext): void => {
  Object.defineProperty(engine, contextKey, { value: context })
}

/** Returns the services of an engine created by `createEngine`, for code built on it with Effect, such as a server. */
export const embeddedContext = (engine: object): EmbeddedContext => {
  const context = Reflect.get(Object(engine), contextKey) as EmbeddedContext | undefined
  if (context === undefined) throw new TypeError("expected an engine returned by createEngine()")
  return context
}

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

const levels: Readonly<Record<string, LogEntry["level"]>> = {
  Trace: "debug",
  Debug: "debug",
  Info: "info",
  Warn: "warning",
  Error: "error",
  Fatal: "error",
}

/** Sends the log of an engine to a function, nowhere (`false`), or by default warnings and errors to standard error. */
const layerLog = (log: false | ((entry: LogEntry) => void) | undefined): Layer.Layer<never> => {
  if (log === undefined)
    return Layer.merge(
      Layer.succeed(References.MinimumLogLevel, "Warn"),
      // Standard output belongs to the program.
      Logger.layer([Logger.withConsoleError(Logger.formatLogFmt)]),
    )
  if (log === false) return Logger.layer([])
  return Logger.layer([
    Logger.make(({ cause, date, fiber, logLevel, message }) => {
      const parts = (Array.isArray(message) ? message : [message]) as ReadonlyArray<unknown>
      const texts = parts.map((part) => readSafely(() => (isError(part) ? part.message : String(part))) ?? "")
      const why = cause.reasons.length === 0 ? [] : [readSafely(() => Cause.pretty(cause)) ?? ""]
      const fields = fiber.getRef(References.CurrentLogAnnotations)
      callSafely(
        () => log({ level: levels[logLevel] ?? "info", message: [...texts, ...why].join(" "), fields, at: date }),
        // There is nowhere left to report it.
        () => undefined,
      )
    }),
  ])
}
