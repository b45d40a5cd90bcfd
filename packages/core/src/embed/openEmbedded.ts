import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { JobMode } from "../domain/Access.ts"
import { JobEvents } from "../engine/index.ts"
import { outsideOfCallers } from "../engine/spans.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import { portsOf, switchesOf } from "../kinds/installedKinds.ts"
import { insideOf, type StoreAdapter, type TelemetryAdapter } from "../ports/adapters.ts"
import { servedBy } from "../worker/claiming/conditions.ts"
import { ownKind } from "./ownKind.ts"
import { checkBatches, checkEngineOptions, checkLimits, checkProviders } from "./checkOptions.ts"
import type { EmbeddedEngine } from "./EmbeddedEngine.ts"
import type { AttemptFailure, EngineOptions } from "./EngineOptions.ts"
import {
  type Assembly,
  type EmbeddedContext,
  type EmbeddedInside,
  type EmbeddedServices,
  keepContext,
  openRuntime,
} from "./EngineRuntime.ts"
import { eventVerbs, fileVerbs, jobVerbs } from "./jobVerbs.ts"
import type { BuiltInKind } from "./jobKind.ts"
import { builtInOf } from "./unloadedKind.ts"
import { promisedOperator } from "./promisedOperator.ts"
import { promisedSchedules } from "./promisedSchedules.ts"
import { providerSet } from "./providerSet.ts"
import { settingsOf } from "./settingsOf.ts"
import { finishHandlersOf } from "./submitVerbs.ts"

/** Overrides for code that builds engines for others, such as a testing kit. */
export interface EmbeddedOverrides extends EmbeddedInside {
  /** The mode of jobs submitted without one. */
  readonly defaultMode?: JobMode
  /** Accepts kinds without providers. */
  readonly unserved?: boolean
  /** Replaces the setting of this name. */
  readonly concurrency?: number
}

/** Returns the kinds. Throws `TypeError` for a value that is not a kind, and for two kinds with the same name. */
const kindsOf = async (given: ReadonlyArray<Kind>): Promise<ReadonlyArray<JobKind>> => {
  // Effect Schema takes a third of the time and memory that Effect takes to load, and only the built-in kinds need it.
  const isOwn = given.every((kind) => builtInOf(kind) === undefined)
  const kinds = given.map(isOwn ? ownKind : (await import("./wholeKind.ts")).wholeKind)
  const names = kinds.map((kind) => kind.name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new TypeError(`two kinds have the name "${twice}"; names must be unique`)
  return kinds
}

/** The types require this too, but a job of a kind without providers would wait silently until its queue limit. */
const expectServed = (kinds: ReadonlyArray<JobKind>, { live, sandbox }: Assembly["providers"]): void => {
  for (const kind of kinds)
    if (servedBy(sandbox, kind) === undefined && servedBy(live, kind) === undefined)
      throw new TypeError(
        `providers.sandbox or providers.live must include the providers of the kind ${kind.name}: ${kind.providers.map((names) => names.join(", ")).join(", or ")}`,
      )
}

/** The types require this too. */
const expectBlobs = (kinds: ReadonlyArray<JobKind>, blobs: unknown): void => {
  if (blobs !== undefined) return
  for (const { files, name, upload } of kinds) {
    const what = files.length > 0 ? `files (${files.join(", ")})` : upload === undefined ? undefined : "an upload"
    if (what !== undefined)
      throw new TypeError(
        `the kind ${name} has ${what}, and createEngine() lacks blobs (such as fileBlobs({ directory }))`,
      )
  }
}

/** `createEngine` with overrides. */
export const openEmbedded = async <
  K extends Kind = BuiltInKind,
  Transaction = never,
  SyncTransaction = never,
  const Working extends boolean = true,
>(
  options: EngineOptions<K, StoreAdapter, Working>,
  inside: EmbeddedOverrides = {},
): Promise<EmbeddedEngine<K, Transaction, SyncTransaction>> => {
  checkEngineOptions(options)
  const { autoStart = true, blobs, log, probe, store, worker = true } = options
  const kinds = await kindsOf(options.kinds)
  expectBlobs(kinds, blobs)
  const given = "providers" in options ? options.providers : undefined
  checkProviders(given, kinds)
  const ports = portsOf(kinds)
  const providers = { sandbox: providerSet(given?.sandbox, ports), live: providerSet(given?.live, ports) }
  const { concurrency, references = Layer.empty, ...overrides } = inside
  const settings = {
    ...settingsOf(options.settings, ports, switchesOf(kinds)),
    ...(concurrency !== undefined && { concurrency }),
  }
  checkLimits(settings.limits.perKind, kinds)
  if (worker && concurrency === undefined) checkBatches(settings, kinds)
  if (worker && inside.unserved !== true) expectServed(kinds, providers)
  const finishHandlers = finishHandlersOf(kinds, options.onFinished, settings)
  const parts = {
    store,
    ...(blobs && { blobs }),
    kinds,
    providers,
    settings,
    finishHandlers,
    ...(probe && { probe }),
    ...(log !== undefined && { log }),
  }
  const telemetry = options.telemetry && (await loadTelemetry(options.telemetry))
  const reported = telemetry === undefined ? Layer.empty : Layer.succeedContext(telemetry.references)
  const running = await openRuntime(
    { ...parts, ...overrides, references: Layer.merge(references, reported), restore: options.context?.restore },
    worker,
  )
  const { drain, start, stop } = running
  const defaultMode =
    inside.defaultMode ??
    options.mode ??
    (given?.live !== undefined && given.sandbox === undefined ? "live" : "sandbox")
  const engine: EmbeddedEngine<K, Transaction, SyncTransaction> = {
    ...jobVerbs(running, defaultMode, options.context?.capture),
    ...fileVerbs(running, defaultMode),
    ...eventVerbs(running),
    schedules: promisedSchedules(running, defaultMode, running.schedulesChanged),
    operator: promisedOperator(running),
    drain,
    start,
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
  keepContext(engine, running)
  if (options.onAttemptFailed !== undefined) reportErrors(running.context, options.onAttemptFailed)
  if (telemetry !== undefined)
    Effect.runSyncWith(Context.add(running.context, Scope.Scope, running.untilIdle))(telemetry.measure)
  if (worker && autoStart) {
    await start().catch(async (error: unknown) => {
      await stop()
      throw error
    })
  }
  return engine
}

/** The parts that a telemetry adapter adds to an engine. */
export interface Telemetry {
  /** The references of everything inside: the tracer, the caller's span, the meter of attempts. */
  readonly references: Context.Context<never>
  /** Measures the engine until the scope closes. */
  readonly measure: Effect.Effect<void, never, EmbeddedServices | Scope.Scope>
}

/** Loads the telemetry inside an adapter: when an engine is created, and not before. */
type LoadTelemetry = () => Promise<Telemetry>

/** Returns the telemetry of an adapter. Throws `TypeError` for anything else. */
const loadTelemetry = async (adapter: TelemetryAdapter): Promise<Telemetry> => {
  const load = typeof adapter === "object" && adapter !== null ? insideOf(adapter) : undefined
  if (typeof load !== "function")
    throw new TypeError('"telemetry" must be a kiln adapter, such as openTelemetry(api) of @kiln/core/opentelemetry')
  return (load as LoadTelemetry)()
}

/** Passes what failed attempts threw to the program. The bus of events logs an exception or a rejection of the listener. */
const reportErrors = (
  context: EmbeddedContext,
  onAttemptFailed: (error: unknown, failure: AttemptFailure) => void,
): void => {
  Context.get(context, JobEvents).listen((event) => {
    if (event.type !== "attempt_failed" && event.type !== "failed") return undefined
    const { attempt, durationMs, error, errorCode, jobId, kind, mode, projectId } = event
    if (attempt === undefined || durationMs === undefined) return undefined
    const retryInMs = event.type === "attempt_failed" ? event.retryInMs : undefined
    // Returned, because an async function gives a promise, whose rejection the bus reports.
    return outsideOfCallers(() =>
      onAttemptFailed(error, { jobId, projectId, kind, mode, attempt, errorCode, retryInMs, durationMs }),
    )
  })
}
