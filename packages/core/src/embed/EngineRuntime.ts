import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Scope from "effect/Scope"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { readSafely } from "../domain/givenValues.ts"
import { type Calls, makeCalls } from "./Calls.ts"
import { fieldOf } from "../providers/checks.ts"
import { EngineClosed, isError, requireNumber, requireOptions, StoreUnavailable } from "../domain/index.ts"
import { CallerSpan } from "../engine/spans.ts"
import { runDeliveries } from "../worker/maintenance/deliverFinished.ts"
import { runSchedules } from "../worker/maintenance/fireSchedules.ts"
import { type Drained, drainJobs, layerSweeps, requireOriginal, Worker } from "../worker/index.ts"
import { isDevelopment, LogMessages } from "../engine/LogMessages.ts"
import { callSafely } from "../engine/JobEvents.ts"
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
import type { Kind } from "../kinds/KindDefinition.ts"
import type { StoreAdapter } from "../ports/adapters.ts"
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
import { noBlobs } from "../installation/noBlobs.ts"
import { drainOptions, stopOptions } from "./checkOptions.ts"
import type { DrainOptions } from "./EmbeddedEngine.ts"
import { backgroundClock, KeepAlive } from "./KeepAlive.ts"
import { RestoreContext } from "./asyncAttempt.ts"
import type { CallerContext, EngineParts, LogEntry } from "./EngineOptions.ts"

type Stores =
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | ScheduleStore
  | DeliveryStore

/** The services of an embedded engine. */
export type EmbeddedServices =
  | Engine
  | Operator
  | Worker
  | JobEvents
  | JobReader
  | Stores
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
export const keepContext = (engine: object, { context, ended, keepAlive }: EngineRuntime): void => {
  let release: (() => void) | undefined
  Object.defineProperty(engine, contextKey, {
    get: () => {
      // Effects in the context wait for fibers in the background, whose timers do not keep the process alive.
      release ??= keepAlive.holdUntil(ended)
      return context
    },
  })
}

/** Returns the services of an engine created by `createEngine`, for code built on it with Effect, such as a server. */
export const embeddedContext = (engine: object): EmbeddedContext => {
  const context = Reflect.get(Object(engine), contextKey) as EmbeddedContext | undefined
  if (context === undefined) throw new TypeError("expected an engine returned by createEngine()")
  return context
}

/** Overrides inside an engine that does not run in real time. */
export interface EmbeddedInside {
  /** References provided to everything inside, for example another `Clock`. */
  readonly references?: Layer.Layer<never>
  /** `false` if the caller advances the time and runs the sweeps itself. */
  readonly sweeps?: boolean
}

/** The parts of an engine, with all defaults applied. */
export interface Assembly
  extends Pick<EngineParts<Kind, StoreAdapter, boolean>, "store" | "blobs" | "probe" | "log">, EmbeddedInside {
  readonly kinds: ReadonlyArray<JobKind>
  readonly providers: { readonly sandbox: ProviderSet; readonly live: ProviderSet }
  readonly settings: EngineSettings
  readonly restore?: CallerContext["restore"] | undefined
  readonly finishHandlers: ReadonlyMap<string, FinishHandler>
}

const noProbe = Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: undefined }) })

const examples = { store: "sqliteStore({ path })", blobs: "fileBlobs({ directory })", probe: "audioProbe()" } as const

const isPromise = (value: unknown): boolean => typeof fieldOf(value, "then") === "function"

/** Returns the layer inside an adapter. Throws `TypeError` for anything else, whatever its static type. */
const layerIn = <Service>(adapter: object, what: keyof typeof examples): Layer.Layer<Service, unknown> => {
  const inside = typeof adapter === "object" && adapter !== null ? insideOf(adapter) : undefined
  if (!Layer.isLayer(inside)) {
    const remedy =
      typeof adapter === "function"
        ? ", not a function: call it"
        : isPromise(adapter)
          ? ", not a promise: await it"
          : ""
    throw new TypeError(`"${what}" must be a kiln adapter, such as ${examples[what]}${remedy}`)
  }
  return inside as Layer.Layer<Service, unknown>
}

/** Builds the engine and a worker that waits to be started, on these adapters. */
const layerEmbedded = (assembly: Assembly): Layer.Layer<EmbeddedServices, unknown> => {
  const { blobs, kinds, log, probe, providers, settings, store } = assembly
  const references = Layer.mergeAll(
    Layer.succeed(EngineConfig, settings),
    Layer.succeed(InstalledKinds, kinds),
    Layer.succeed(FinishHandlers, assembly.finishHandlers),
    layerLog(typeof log === "object" ? log.to : log),
    Layer.succeed(LogMessages, (typeof log === "object" ? log.messages : undefined) ?? isDevelopment()),
    Layer.succeed(RestoreContext, assembly.restore),
    Layer.succeed(Clock.Clock, backgroundClock),
    assembly.references ?? Layer.empty,
  )
  const stores = layerIn<Stores>(store, "store")
  const adapters = Layer.mergeAll(
    stores,
    blobs === undefined ? Layer.provide(noBlobs, stores) : layerIn<BlobStore>(blobs, "blobs"),
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
        log,
        { level: levels[logLevel] ?? "info", message: [...texts, ...why].join(" "), fields, at: date },
        // There is nowhere left to report it.
        () => undefined,
      )
    }),
  ])
}

/** Runs the operations of an embedded engine, and starts and stops it. */
export interface EngineRuntime extends Omit<Calls<EmbeddedServices>, "settled"> {
  readonly context: EmbeddedContext
  /** Closes when the worker has stopped, before the stores: for what must hear of the jobs that end meanwhile. */
  readonly untilIdle: Scope.Scope
  /** Keeps the process alive while calls are in progress or the worker runs. */
  readonly keepAlive: KeepAlive
  /** Aborted when the engine begins to close. */
  readonly closed: AbortSignal
  /** Aborted when the engine has stopped. */
  readonly ended: AbortSignal
  /** Makes a worker of this process look at the schedules. */
  readonly schedulesChanged: () => void
  readonly start: () => Promise<void>
  readonly drain: (options: DrainOptions) => Promise<Drained>
  readonly stop: (options?: { readonly drainMs?: number }) => Promise<void>
}

/** Starts the worker in a scope, and what fires schedules and calls `onFinished` unless the caller does that. A change ends pauses. */
const startIn = (scope: Scope.Scope, schedulesChanged: Effect.Effect<void> | undefined) =>
  Effect.gen(function* () {
    yield* requireOriginal
    yield* (yield* Worker).start
    if (schedulesChanged === undefined) return
    yield* Effect.forkScoped(runSchedules(schedulesChanged))
    yield* Effect.forkScoped(runDeliveries)
  }).pipe(Effect.provideService(Scope.Scope, scope))

/** The longest time that a timer of the runtime can wait. */
const maxTimerMs = 2 ** 31 - 1

/** Additional time after the drain for releasing jobs and closing the stores, as in the service. */
const stopGraceMs = 25_000

/** Waits until an engine has stopped, and aborts `ended`. Rejects if that takes too long; the close then continues in the background. */
const limited = async (drainMs: number, stopped: Promise<void>, ended: AbortController): Promise<void> => {
  const ms = drainMs + stopGraceMs
  const { promise: overdue, reject } = Promise.withResolvers<never>()
  const cause = `it did not answer within ${ms / 1_000} s; jobs in progress are taken over when their leases end`
  const giveUp = () => reject(new StoreUnavailable({ operation: "stop", cause }))
  const timer = setTimeout(giveUp, Math.min(ms, maxTimerMs))
  try {
    await Promise.race([stopped, overdue])
  } finally {
    clearTimeout(timer)
    ended.abort(new EngineClosed())
  }
}

/** Returns the options. Throws `TypeError` if one of them is invalid, or if there is no worker. */
const drainLimits = (options: DrainOptions, working: boolean): DrainOptions => {
  requireOptions("drain()", options, drainOptions)
  requireNumber("maxMs", options.maxMs, { least: 1, most: maxTimerMs })
  if (options.maxJobs !== undefined) requireNumber("maxJobs", options.maxJobs, { least: 1, whole: true })
  if (!working) throw new TypeError("drain() needs a worker, but this engine was created with worker: false")
  return options
}

/** Runs these in order. The failure of one does not prevent the next one; the first is thrown at the end. */
const runAll = async (ends: ReadonlyArray<() => Promise<unknown>>): Promise<void> => {
  const failures: Array<unknown> = []
  for (const end of ends) await end().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

/** Opens what is in the runtime. When something cannot be opened, closes the rest and rejects. */
const opened = (runtime: ManagedRuntime.ManagedRuntime<EmbeddedServices, unknown>) =>
  runtime.context().catch(async (error: unknown) => {
    await runtime.dispose()
    throw error
  })

/** Opens the stores. Rejects when one of them cannot be opened, after closing the others. */
export const openRuntime = async (assembly: Assembly, working: boolean): Promise<EngineRuntime> => {
  let drainMs = assembly.settings.drainMs
  // The worker reads this when it stops: `stop` may have been called with another value.
  const settings = Object.defineProperty({ ...assembly.settings }, "drainMs", { get: () => drainMs })
  const runtime = ManagedRuntime.make(layerEmbedded({ ...assembly, settings }))
  const runsSchedules = assembly.sweeps !== false
  const keepAlive = new KeepAlive(runsSchedules)
  const context = await keepAlive.while(opened(runtime))
  const schedulesChanged = Latch.makeUnsafe(false)
  const [closing, ended] = [new AbortController(), new AbortController()] as const
  const [attached, workerScope, untilIdle] = [Scope.makeUnsafe(), Scope.makeUnsafe(), Scope.makeUnsafe()] as const
  let starting: Promise<void> | undefined
  let stopping: Promise<void> | undefined
  let draining: Promise<Drained> | undefined

  const calls = makeCalls(runtime, keepAlive, Context.get(context, CallerSpan), {
    closing: closing.signal,
    ended: ended.signal,
  })
  const { accept, accepting, run, runSync } = calls
  const close = async () => {
    closing.abort(new EngineClosed())
    await starting?.catch(() => undefined)
    await draining?.catch(() => undefined)
    // Closed in this order: users of the engine, the worker, what measures it, the stores.
    const scopes = [attached, workerScope, untilIdle].map(
      (scope) => () => runtime.runPromise(Scope.close(scope, Exit.void)),
    )
    await runAll([...scopes, calls.settled, () => runtime.dispose()])
  }
  return {
    context: Context.add(context, Scope.Scope, attached),
    untilIdle,
    run,
    accept,
    accepting,
    keepAlive,
    runSync,
    closed: closing.signal,
    ended: ended.signal,
    schedulesChanged: () => void Effect.runSync(schedulesChanged.release),
    start: async () => {
      if (!working) throw new TypeError("start() needs a worker, but this engine was created with worker: false")
      closing.signal.throwIfAborted()
      if (draining !== undefined) throw new TypeError("start() cannot begin while drain() is running")
      if (starting !== undefined) return starting
      const release = keepAlive.holdUntil(ended.signal)
      starting = runtime.runPromise(startIn(workerScope, runsSchedules ? schedulesChanged.await : undefined))
      starting.catch(() => {
        release()
        // A copy that is adopted can be started then.
        starting = undefined
      })
      return starting
    },
    drain: async (options) => {
      const { signal, ...limits } = drainLimits(options, working)
      if (starting !== undefined)
        throw new TypeError("drain() needs a worker that is not running: set autoStart: false")
      if (draining !== undefined) throw new TypeError("drain() is already running")
      draining = run(drainJobs(limits), signal)
      return draining.finally(() => (draining = undefined))
    },
    stop: (options = {}) => {
      requireOptions("stop()", options, stopOptions)
      if (options.drainMs !== undefined) requireNumber("drainMs", options.drainMs, { least: 0 })
      if (stopping === undefined) drainMs = options.drainMs ?? drainMs
      return (stopping ??= keepAlive.while(limited(drainMs, close(), ended)))
    },
  }
}
