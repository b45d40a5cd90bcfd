import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { StoreUnavailable, WorkerRoom } from "../domain/index.ts"
import { unknownName } from "../domain/knownNames.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import type { JobEvents } from "../engine/JobEvents.ts"
import {
  type BlobStore,
  type Claim,
  type IdGenerator,
  type JobDirectory,
  type JobStore,
  type MediaProbe,
  type Switchboard,
  type UploadStore,
  WakeUp,
} from "../ports/index.ts"
import { JobKinds, portsOf } from "../kinds/JobKinds.ts"
import { Providers, type ProviderStanding } from "../providers/index.ts"
import { makeProviderGuard, ProviderGuard } from "../providers/ProviderGuard.ts"
import { claimInto } from "./claimInto.ts"
import { GateWatch } from "./GateWatch.ts"
import { checkClaims, heartbeat } from "./Heartbeat.ts"
import { makeIdling } from "./Idling.ts"
import { publishCapabilities } from "./publishCapabilities.ts"
import { watchWithheld } from "./recovery.ts"
import { makeOutageLog } from "./outageLog.ts"
import { isTight, makeSlots } from "./Slots.ts"
import { expireWhileHolding } from "./Sweeper.ts"

/** Everything a worker works with. */
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

type MakerNeeds = WorkerNeeds | GateWatch | ProviderGuard

/**
 * Guards the live providers of this process, each within its settings, by default the limits of its port. Settings for a provider
 * that no kind can use are a defect (`TypeError`), so a misspelled name fails at start-up.
 */
const layerProviderGuard = Layer.effect(
  ProviderGuard,
  Effect.gen(function* () {
    const { circuit, providers: settings } = yield* EngineConfig
    const { live } = yield* Providers
    const ports = portsOf(yield* JobKinds)
    const names = ports.map(({ name }) => name)
    const unknown = Object.keys(settings).find((name) => !names.includes(name))
    if (unknown !== undefined)
      return yield* Effect.die(
        new TypeError(unknownName(`provider "${unknown}" in settings.providers`, unknown, names)),
      )
    const served = ports.filter(({ name }) => live[name] !== undefined)
    return yield* makeProviderGuard(
      new Map(served.map(({ bounds, name }) => [name, settings[name] ?? bounds])),
      circuit,
    )
  }),
)

/** What a worker reads before it claims, and an attempt before it buys. */
const layerWatches = Layer.merge(GateWatch.layer, layerProviderGuard)

/** Runs jobs. */
export class Worker extends Context.Service<
  Worker,
  {
    /** Claims what is claimable now, up to the concurrency and of both modes together, runs it to its end and says how many that was. For tests. */
    readonly tick: Effect.Effect<number, StoreUnavailable>
    /** Claims and runs until interrupted. Interruption stops claiming, lets running jobs finish for `drainMs`, and releases the rest. */
    readonly run: Effect.Effect<never>
    /** The same in the background until the scope closes, and says meanwhile in the store which kinds are served live here. */
    readonly start: Effect.Effect<void, never, Scope.Scope>
    /** Jobs in hand. */
    readonly running: Effect.Effect<number>
    /** When the store last answered a claim, unix milliseconds; `undefined` before the first. What `alive` means for a worker. */
    readonly lastClaimAt: Effect.Effect<number | undefined>
    /**
     * By when the store is to be asked for work next, milliseconds by this process's monotonic clock; `undefined` before its first answer. It stays in
     * the past until the store answers. Says nothing about a worker with all hands full, which does not ask.
     */
    readonly nextClaimBy: Effect.Effect<number | undefined>
    /** How the live providers of this process stand. */
    readonly providers: Effect.Effect<ReadonlyArray<ProviderStanding>>
  }
>()("@kiln/core/worker/Worker") {
  /** A worker that does nothing until it is told to. */
  static readonly layer: Layer.Layer<Worker, never, WorkerNeeds> = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const context = yield* Effect.context<MakerNeeds>()
      return yield* Effect.provide(makeWorker, context)
    }),
  ).pipe(Layer.provide(layerWatches))

  /** A worker that runs, with its heartbeat, until the layer's scope closes. The sweeps are a layer of their own. */
  static readonly layerRunning: Layer.Layer<Worker, never, WorkerNeeds> = Layer.effect(
    Worker,
    Effect.tap(Worker, (worker) => worker.start),
  ).pipe(Layer.provide(Worker.layer))
}

const makeWorker: Effect.Effect<Worker["Service"], never, MakerNeeds> = Effect.gen(function* () {
  const config = yield* EngineConfig
  const guard = yield* ProviderGuard
  const context = yield* Effect.context<MakerNeeds>()
  const slots = yield* makeSlots
  const idling = yield* makeIdling
  let lastClaimAt: number | undefined

  const claim = Effect.fnUntraced(function* (room: number | WorkerRoom) {
    yield* idling.asks
    const claimed = yield* claimInto(slots, room)
    yield* idling.wasAnswered
    lastClaimAt = yield* Clock.currentTimeMillis
    return claimed
  })

  const attempt = (one: Claim, askedAtNanos: bigint) =>
    Effect.ensuring(Effect.interruptible(slots.attempt(one, askedAtNanos)), idling.attemptEnded)

  const tick = Effect.gen(function* () {
    const { askedAtNanos, claims } = yield* claim(config.concurrency)
    const attempts = Effect.forEach(claims, (one) => slots.attempt(one, askedAtNanos), {
      concurrency: "unbounded",
      discard: true,
    })
    yield* Effect.raceFirst(attempts, heartbeat(slots.leases))
    return claims.length
  })

  const run = Effect.scoped(
    Effect.gen(function* () {
      const wakeUp = yield* WakeUp
      const beating = yield* Effect.forkScoped(heartbeat(slots.leases))
      yield* Effect.forkScoped(checkClaims(slots.leases))
      yield* Effect.forkScoped(watchWithheld(slots))
      yield* Effect.forkScoped(expireWhileHolding(() => slots.leases.size > 0))
      const running = yield* FiberSet.make<void>()
      const outage = makeOutageLog("claiming jobs")
      yield* Effect.addFinalizer(() => drain(running, beating, config.drainMs, wakeUp))
      const claimAndStart = Effect.gen(function* () {
        const room = slots.room()
        // Jobs that were committed together leave together: their slots are filled by one claim, not by one each.
        const freed = Effect.andThen(slots.nextFreed(), Effect.yieldNow)
        if (room.free.live <= 0 && room.free.sandbox <= 0) return yield* freed
        const reservedMs = yield* slots.company.reservedMs
        if (reservedMs > 0) return yield* Effect.raceFirst(freed, idling.holdBack(reservedMs))
        // A job that was claimed is started, or its worker would count as lost when this one is stopped in between.
        const result = yield* Effect.uninterruptible(
          Effect.tap(claim(room), ({ askedAtNanos, claims }) =>
            Effect.forEach(
              claims,
              (one) => FiberSet.run(running, attempt(one, askedAtNanos), { startImmediately: true }),
              { discard: true },
            ),
          ),
        )
        yield* outage.worked
        if (result.claims.length > 0) return idling.reset()
        const rest = idling.rest(result.nextInMs)
        // What is held back by this worker's own slots alone, the store does not tell of.
        yield* isTight(room) ? Effect.raceFirst(rest, freed) : rest
      })
      return yield* Effect.forever(
        // Whatever went wrong in one turn, the worker must not end: it would look alive and be idle.
        Effect.catchCause(claimAndStart, (cause) => Effect.andThen(outage.failed(cause), idling.restAfterFailure)),
      )
    }),
  )

  return Worker.of({
    tick: Effect.provide(tick, context),
    run: Effect.provide(run, context),
    start: Effect.provide(runInBackground(run), Context.omit(Scope.Scope)(context)),
    running: Effect.sync(() => slots.leases.size),
    lastClaimAt: Effect.sync(() => lastClaimAt),
    nextClaimBy: Effect.sync(idling.nextClaimBy),
    providers: guard.standings,
  })
})

/** In the scope of who starts it, which is not the one the worker was made in. */
const runInBackground = (run: Effect.Effect<never, never, MakerNeeds>) =>
  Effect.asVoid(Effect.andThen(publishCapabilities, Effect.forkScoped(run)))

/**
 * Lets running attempts finish for a while; the rest is interrupted, and each gives its job back as its last act. One
 * whose last write does not get through ends with its lease, which nobody extends any more. Whoever else is there is told,
 * or what was given back would lie there until they look by themselves.
 */
const drain = (
  running: FiberSet.FiberSet<void>,
  beating: Fiber.Fiber<never>,
  drainMs: number,
  wakeUp: WakeUp["Service"],
) =>
  Effect.gen(function* () {
    yield* Effect.timeoutOption(Effect.interruptible(FiberSet.awaitEmpty(running)), drainMs)
    yield* Fiber.interrupt(beating)
    const givesBack = (yield* FiberSet.size(running)) > 0
    yield* FiberSet.clear(running)
    if (givesBack) yield* wakeUp.notify
  })
