import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { JobMode, StoreUnavailable } from "../domain/index.ts"
import { givenField, unknownName, valueOf } from "../domain/givenValues.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import type { Engine } from "../engine/Engine.ts"
import type { Fingerprint } from "../engine/prepareJob.ts"
import type { JobEvents } from "../engine/JobEvents.ts"
import type {
  BlobStore,
  IdGenerator,
  JobDirectory,
  JobStore,
  MediaProbe,
  Switchboard,
  UploadStore,
  WakeUp,
} from "../ports/index.ts"
import { InstalledKinds, installedKinds, portsOf } from "../kinds/installedKinds.ts"
import { Providers } from "../providers/index.ts"
import type { ProviderStanding } from "../providers/circuitBreaker.ts"
import { makeProviderGuard, ProviderGuard } from "../providers/ProviderGuard.ts"
import { limitedInLiveOnly, limitedInSandbox, unlimitedInSandbox } from "../providers/sandboxLimits.ts"
import { makeClaiming, makeIdling, makeLoops } from "./claiming/claiming.ts"
import { GateWatch, Rates, servedBy } from "./claiming/conditions.ts"
import { earlier } from "./claiming/claimInto.ts"
import { publishCapabilities, type SlotsNow } from "./claiming/publishCapabilities.ts"
import { makeSlots, type Slots } from "./claiming/Slots.ts"

/** The services that a worker needs. */
export type WorkerNeeds =
  | JobStore
  | UploadStore
  | BlobStore
  | Providers
  | MediaProbe
  | Switchboard
  | IdGenerator
  | WakeUp
  | JobEvents
  | JobDirectory
  | Engine
  | Fingerprint

type MakerNeeds = WorkerNeeds | GateWatch | ProviderGuard | Rates

/**
 * Guards the live providers of this process with their settings, by default the limits of their ports. Settings for a provider
 * that no kind can use are a defect (`TypeError`), so a misspelled name fails at startup.
 */
const layerProviderGuard = Layer.effect(
  ProviderGuard,
  Effect.gen(function* () {
    const { circuit, providers: settings } = yield* EngineConfig
    const providers = yield* Providers
    const ports = portsOf(yield* installedKinds)
    const names = ports.map(({ name }) => name)
    const unknown = Object.keys(settings).find((name) => !names.includes(name))
    if (unknown !== undefined)
      return yield* Effect.die(
        new TypeError(unknownName(`provider "${unknown}" in settings.providers`, unknown, names)),
      )
    const inSandbox = limitedInSandbox(providers, ports, settings)
    const liveOnly = limitedInLiveOnly(providers, ports, settings)
    if (liveOnly.length > 0)
      yield* Effect.logInfo(
        `rate, concurrency and callLimitMs of ${liveOnly.join(", ")} hold for live jobs only: sandbox jobs use another provider`,
      )
    const unlimited = unlimitedInSandbox(providers, ports, settings)
    if (unlimited.length > 0)
      yield* Effect.logInfo(
        `calls of ${unlimited.join(", ")} by sandbox jobs have no timeout and no circuit: set rate, concurrency or callLimitMs of these providers to have both`,
      )
    const served = ports.filter(({ name }) => givenField(providers.live, name) !== undefined || inSandbox.has(name))
    return yield* makeProviderGuard(
      new Map(served.map(({ bounds, name }) => [name, valueOf(settings, name) ?? bounds])),
      circuit,
      (yield* Rates).ofProvider,
      inSandbox,
    )
  }),
)

/** The services that a worker consults before it claims, and an attempt before it calls a provider. */
const layerWatches = Layer.merge(GateWatch.layer, Layer.provideMerge(layerProviderGuard, Rates.layer))

/** Runs jobs. */
export class Worker extends Context.Service<
  Worker,
  {
    /**
     * Claims jobs that are claimable now, at most `concurrency` of both modes together, runs them to their end and returns
     * their number. For tests.
     */
    readonly tick: Effect.Effect<number, StoreUnavailable>
    /**
     * Claims and runs jobs until none runs and none is claimable, or until it has claimed `maxJobs`, and returns the number of those that
     * it claimed. Interruption does what it does to `run`, but running jobs get no more time than until `untilMs` of the monotonic clock.
     */
    readonly runClaimable: (maxJobs: number, untilMs: number) => Effect.Effect<number, StoreUnavailable>
    /**
     * Claims and runs jobs until interrupted. Interruption stops claiming, lets running jobs finish for `drainMs` and
     * releases the rest.
     */
    readonly run: Effect.Effect<never>
    /** Does the same in the background until the scope closes, and publishes which kinds this worker serves live. */
    readonly start: Effect.Effect<void, never, Scope.Scope>
    /** Number of claimed jobs. */
    readonly running: Effect.Effect<number>
    /** Time of the store's last answer to a claim, in Unix milliseconds; `undefined` before the first. */
    readonly lastClaimAt: Effect.Effect<number | undefined>
    /**
     * Time of the next claim, in milliseconds of this process's monotonic clock; `undefined` before the store's first answer. It stays
     * in the past until the store answers. It has no meaning while all slots are full, because the worker does not claim then.
     */
    readonly nextClaimBy: Effect.Effect<number | undefined>
    /** The standings of this process's live providers. */
    readonly providers: Effect.Effect<ReadonlyArray<ProviderStanding>>
    /**
     * Milliseconds until a paused provider is tried again, or a rate that held jobs back at the last claim has room; `undefined` if
     * neither holds back a job. For tests.
     */
    readonly heldBackMs: Effect.Effect<number | undefined>
    /** Waits until a running job waits for a rate. For tests. */
    readonly untilWaitsForRate: Effect.Effect<void>
  }
>()("@kiln/core/worker/Worker") {
  /** A worker that does nothing until one of its methods is called. */
  static readonly layer: Layer.Layer<Worker, never, WorkerNeeds> = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const context = yield* Effect.context<MakerNeeds>()
      // Each claim reads them, and must not wait for a module.
      return yield* Effect.provide(makeWorker, Context.add(context, InstalledKinds, yield* installedKinds))
    }),
  ).pipe(Layer.provide(layerWatches))

  /** A worker that runs until the layer's scope closes. The sweeps are a separate layer. */
  static readonly layerRunning: Layer.Layer<Worker, never, WorkerNeeds> = Layer.effect(
    Worker,
    Effect.tap(Worker, (worker) => worker.start),
  ).pipe(Layer.provide(Worker.layer))
}

const makeWorker: Effect.Effect<Worker["Service"], never, MakerNeeds | Scope.Scope> = Effect.gen(function* () {
  const config = yield* EngineConfig
  const guard = yield* ProviderGuard
  const rates = yield* Rates
  const context = yield* Effect.context<MakerNeeds>()
  const idling = yield* makeIdling
  const slots = yield* makeSlots(idling.attemptEnded)
  const claiming = yield* makeClaiming(slots, idling)
  const served = yield* servedModes

  const { run, runClaimable, tick } = makeLoops({ config, slots, idling, claiming, served })

  return Worker.of({
    tick: Effect.provide(tick, context),
    runClaimable: (maxJobs, untilMs) => Effect.provide(runClaimable(maxJobs, untilMs), context),
    run: Effect.provide(run, context),
    start: Effect.provide(runInBackground(run, slots, claiming), Context.omit(Scope.Scope)(context)),
    running: Effect.sync(() => slots.watch.leases.size),
    lastClaimAt: Effect.sync(claiming.lastClaimAt),
    nextClaimBy: Effect.sync(idling.nextClaimBy),
    providers: guard.standings,
    heldBackMs: Effect.flatMap(guard.nextTryInMs, (paused) =>
      Effect.map(rates.nextInMs, (held) => earlier(paused, held)),
    ),
    untilWaitsForRate: rates.waits.await,
  })
})

/** The modes in which this worker serves at least one kind. */
const servedModes = Effect.gen(function* () {
  const providers = yield* Providers
  const kinds = yield* installedKinds
  const modes: ReadonlyArray<JobMode> = ["live", "sandbox"]
  return modes.filter((mode) => kinds.some((kind) => servedBy(providers[mode], kind) !== undefined))
})

/**
 * Runs in the scope of the caller, not in the scope in which the worker was created. Finalizers run last to first, so the publication
 * tells that the worker drains before its run is interrupted, and ends after it.
 */
const runInBackground = (
  run: Effect.Effect<never, never, MakerNeeds>,
  slots: Pick<Slots, "room">,
  { lastClaimAt }: Pick<SlotsNow, "lastClaimAt">,
) =>
  Effect.gen(function* () {
    const { drains } = yield* publishCapabilities({ free: () => slots.room().free, lastClaimAt })
    yield* Effect.forkScoped(run)
    yield* Effect.addFinalizer(() => drains)
  })
