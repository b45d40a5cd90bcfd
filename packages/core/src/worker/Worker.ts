import { Clock, Context, Deferred, Effect, FiberSet, Layer, Random } from "effect"
import type { StoreUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobSignals } from "../engine/JobSignals.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import {
  BlobStore, type Claim, IdGenerator, JobStore, MediaProbe, Providers, Switchboard, UploadStore, WakeUp,
} from "../ports/index.ts"
import { GateWatch } from "./GateWatch.ts"
import { heartbeat } from "./Heartbeat.ts"
import { type HeldLease, holdLease } from "./HeldLease.ts"
import { publishCapabilities } from "./publishCapabilities.ts"
import { runAttempt } from "./RunAttempt.ts"
import { runnableKinds } from "./runnableKinds.ts"
import { sweep } from "./Sweeper.ts"

/** Everything a worker works with. */
export type WorkerNeeds =
  | JobStore | UploadStore | BlobStore | Providers | MediaProbe | Switchboard | IdGenerator | WakeUp | JobSignals

/** Runs jobs. */
export class Worker extends Context.Service<Worker, {
  /** Claims what is claimable now, up to the concurrency, runs it to its end and says how many that was. For tests. */
  readonly tick: Effect.Effect<number, StoreUnavailable>
  /** Claims and runs until interrupted. Interruption stops claiming, lets running jobs finish for `drainMs`, and releases the rest. */
  readonly run: Effect.Effect<never>
  /** Jobs in hand. */
  readonly running: Effect.Effect<number>
  /** When the store last answered a claim, unix milliseconds; `undefined` before the first. What `alive` means for a worker. */
  readonly lastClaimAt: Effect.Effect<number | undefined>
}>()("@kiln/core/worker/Worker") {
  /** A worker that does nothing until it is told to. */
  static readonly layer: Layer.Layer<Worker, never, WorkerNeeds> = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const context = yield* Effect.context<WorkerNeeds | GateWatch>()
      return yield* Effect.provide(makeWorker, context)
    }),
  ).pipe(Layer.provide(GateWatch.layer))

  /** A worker that runs, with its heartbeat and its sweeps, until the layer's scope closes. */
  static readonly layerRunning: Layer.Layer<Worker, never, WorkerNeeds> = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const worker = yield* Worker
      yield* Effect.forkScoped(sweep)
      yield* Effect.forkScoped(publishCapabilities)
      yield* Effect.forkScoped(worker.run)
      return worker
    }),
  ).pipe(Layer.provide(Worker.layer))
}

const makeWorker: Effect.Effect<Worker["Service"], never, WorkerNeeds | GateWatch> = Effect.gen(function* () {
  const config = yield* EngineConfig
  const kinds = new Map((yield* JobKinds).map((kind) => [kind.name, kind]))
  const store = yield* JobStore
  const wakeUp = yield* WakeUp
  const context = yield* Effect.context<WorkerNeeds | GateWatch>()
  const leases = new Set<HeldLease>()
  let slotFreed = Deferred.makeUnsafe<void>()
  let lastClaimAt: number | undefined

  const attempt = (claim: Claim, askedAtNanos: bigint) =>
    Effect.suspend(() => {
      const kind = kinds.get(claim.job.kind)
      if (kind === undefined) return Effect.die(new Error(`claimed a job of the unknown kind ${claim.job.kind}`))
      const lease = holdLease({ jobId: claim.job.id, token: claim.token }, askedAtNanos, claim.leaseRemainingMs)
      leases.add(lease)
      return Effect.ensuring(
        runAttempt(kind, claim, lease),
        Effect.sync(() => {
          leases.delete(lease)
          Deferred.doneUnsafe(slotFreed, Effect.void)
        }),
      )
    })

  const claim = Effect.fnUntraced(function* (limit: number) {
    const runnable = yield* runnableKinds
    const askedAtNanos = yield* Clock.monotonicTimeNanos
    const result = yield* store.claimJobs({
      runnable,
      limit,
      leaseDurationMs: config.leaseDurationMs,
      maxLostWorkers: config.attempts.maxLostWorkers,
    })
    lastClaimAt = yield* Clock.currentTimeMillis
    if (result.abandoned.length > 0) yield* Effect.logWarning("jobs that lost their last worker", result.abandoned)
    return { ...result, askedAtNanos }
  })

  const tick = Effect.gen(function* () {
    const { askedAtNanos, claims } = yield* claim(config.concurrency)
    const beating = yield* Effect.forkChild(heartbeat(leases))
    yield* Effect.forEach(claims, (one) => attempt(one, askedAtNanos), { concurrency: "unbounded", discard: true })
    beating.interruptUnsafe()
    return claims.length
  })

  /** Claims once and starts what it got; answers how long the loop may sleep, 0 for not at all. */
  const claimAndStart = Effect.fnUntraced(function* (running: FiberSet.FiberSet<void>) {
    const free = config.concurrency - leases.size
    if (free <= 0) {
      slotFreed = Deferred.makeUnsafe<void>()
      if (leases.size >= config.concurrency) yield* Deferred.await(slotFreed)
      return 0
    }
    const result = yield* claim(free)
    for (const one of result.claims)
      yield* FiberSet.run(running, attempt(one, result.askedAtNanos), { startImmediately: true })
    return result.claims.length > 0 ? 0 : Math.min(result.nextInMs ?? config.pollIntervalMs, config.pollIntervalMs)
  })

  const loop = Effect.fnUntraced(function* (running: FiberSet.FiberSet<void>) {
    while (true) {
      const pauseMs = yield* claimAndStart(running).pipe(
        Effect.catchTag("StoreUnavailable", (error) =>
          Effect.as(Effect.logWarning("claim: store out of reach", error.operation), config.pollIntervalMs),
        ),
      )
      // A little jitter, so that processes started together do not ask together for ever.
      if (pauseMs > 0)
        yield* Effect.raceFirst(wakeUp.wait, Effect.sleep(pauseMs * (0.75 + 0.25 * (yield* Random.next))))
    }
  })

  const run = Effect.scoped(
    Effect.gen(function* () {
      yield* Effect.forkScoped(heartbeat(leases))
      const running = yield* FiberSet.make<void>()
      yield* Effect.addFinalizer(() =>
        Effect.gen(function* () {
          yield* Effect.timeoutOption(Effect.interruptible(FiberSet.awaitEmpty(running)), config.drainMs)
          // The rest is interrupted, and each attempt gives its job back as its last act.
          yield* FiberSet.clear(running)
        }),
      )
      return yield* loop(running)
    }),
  )

  return Worker.of({
    tick: Effect.provide(tick, context),
    run: Effect.provide(run, context),
    running: Effect.sync(() => leases.size),
    lastClaimAt: Effect.sync(() => lastClaimAt),
  })
})
