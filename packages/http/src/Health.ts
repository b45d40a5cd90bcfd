import { Cause, Clock, Context, Effect, Fiber, Layer, type Scope, Stream } from "effect"
import { EngineConfig } from "@kiln/core/effect"
import { idBody, type JsonObject } from "@kiln/core/domain"
import { BlobStore, IdGenerator, Switchboard } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { providerStandings } from "./providerStandings.ts"

/** What `/readyz` says: ready when every check is. */
export interface ReadinessReport {
  readonly status: "ready" | "unavailable"
  readonly checks: Readonly<Record<string, "ok" | "failing">>
  /** What else there is to know, and does not make the process unready. */
  readonly details: Readonly<Record<string, JsonObject>>
}

/** A check that hangs is a check that fails. */
const checkLimitMs = 2_000

/**
 * Whether this process can do its work now. Each part of it adds a check under a name; what a check
 * fails with goes to the log, not to the caller.
 */
export class Readiness extends Context.Service<
  Readiness,
  {
    /** Adds a check until the scope closes: it succeeds with whether all is well. A failure or more than 2 s is a no. */
    readonly add: (name: string, check: Effect.Effect<boolean, unknown>) => Effect.Effect<void, never, Scope.Scope>
    /** Adds a detail until the scope closes. One that fails or takes more than 2 s is left out. */
    readonly addDetail: (
      name: string,
      detail: Effect.Effect<JsonObject, unknown>,
    ) => Effect.Effect<void, never, Scope.Scope>
    readonly report: Effect.Effect<ReadinessReport>
  }
>()("@kiln/http/Readiness") {
  static readonly layer: Layer.Layer<Readiness> = Layer.sync(Readiness, () => {
    const checks = new Map<string, Effect.Effect<boolean, unknown>>()
    const details = new Map<string, Effect.Effect<JsonObject, unknown>>()
    // In a fiber of its own: a check that cannot be interrupted must not hold up the answer.
    const run = <A, B>(name: string, look: Effect.Effect<A, unknown>, otherwise: B): Effect.Effect<A | B> =>
      Effect.flatMap(Effect.forkDetach(look), Fiber.join).pipe(
        Effect.timeoutOrElse({ duration: checkLimitMs, orElse: () => Effect.succeed(otherwise) }),
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning(`not ready: ${name}`, Cause.pretty(cause)), otherwise),
        ),
      )
    const runAll = <A, B>(looks: ReadonlyMap<string, Effect.Effect<A, unknown>>, otherwise: B) =>
      Effect.forEach(
        [...looks],
        ([name, look]) => Effect.map(run(name, look, otherwise), (found) => [name, found] as const),
        { concurrency: "unbounded" },
      )
    return Readiness.of({
      add: registerIn(checks),
      addDetail: registerIn(details),
      report: Effect.gen(function* () {
        const [results, known] = yield* Effect.all([runAll(checks, false), runAll(details, undefined)], {
          concurrency: "unbounded",
        })
        return {
          status: results.every(([, ok]) => ok) ? "ready" : "unavailable",
          checks: Object.fromEntries(results.map(([name, ok]) => [name, ok ? "ok" : "failing"] as const)),
          details: Object.fromEntries(
            known.flatMap(([name, detail]) => (detail === undefined ? [] : [[name, detail]])),
          ),
        } satisfies ReadinessReport
      }),
    })
  })
}

/** Adds to a map until the scope closes. */
const registerIn =
  <A>(registered: Map<string, A>) =>
  (name: string, value: A): Effect.Effect<void, never, Scope.Scope> =>
    Effect.acquireRelease(
      Effect.sync(() => void registered.set(name, value)),
      () => Effect.sync(() => (registered.get(name) === value ? void registered.delete(name) : undefined)),
    )

/** Milliseconds an answer about writing is good for: whoever asks more often shall not wear out the disk. */
const writeCheckMs = 5_000

/**
 * Adds the checks `writes` and `blobs`: whether something can be stored right now. A full or read-only disk still answers
 * every read, and a service that only reads is not ready.
 */
export const layerWriteReadiness: Layer.Layer<never, never, Readiness | Switchboard | BlobStore | IdGenerator> =
  Layer.effectDiscard(
    Effect.gen(function* () {
      const readiness = yield* Readiness
      const switchboard = yield* Switchboard
      const blobs = yield* BlobStore
      const ids = yield* IdGenerator
      // It serves nothing; that the store has taken it is all there is to know.
      const writes = switchboard.publishWorker({ workerId: "readiness", liveKinds: [], providers: [], ttlMs: 0 })
      const putAndRemove = Effect.gen(function* () {
        const key = `probe/${idBody(yield* ids.next("req"))}`
        yield* blobs.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 })
        yield* blobs.remove(key)
      })
      yield* readiness.add("writes", yield* Effect.cachedWithTTL(Effect.as(writes, true), writeCheckMs))
      yield* readiness.add("blobs", yield* Effect.cachedWithTTL(Effect.as(putAndRemove, true), writeCheckMs))
    }),
  )

/** Milliseconds what workers published is good for. */
const providersCheckMs = 1_000

/** Adds the detail `providers`: how the live providers stand, in all workers of the installation together. */
export const layerProviderDetails: Layer.Layer<never, never, Readiness | Switchboard> = Layer.effectDiscard(
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const switchboard = yield* Switchboard
    const details = Effect.map(switchboard.listWorkers, (workers) =>
      Object.fromEntries(
        providerStandings(workers).map(({ pausedSince, pausedWorkers, provider, reason, status, workers: count }) => [
          provider,
          {
            status,
            workers: count,
            paused_workers: pausedWorkers,
            reason,
            paused_since: pausedSince === null ? null : new Date(pausedSince).toISOString(),
          },
        ]),
      ),
    )
    yield* readiness.addDetail("providers", yield* Effect.cachedWithTTL(details, providersCheckMs))
  }),
)

/** Longest time for a worker that has room for more to go without an answer, from when it was to ask for work. */
const claimSilenceMs = 10_000

/** Adds the check `worker`: the store answers its claims when they are due. A worker with all hands full does not claim, and is well. */
export const layerWorkerReadiness: Layer.Layer<never, never, Readiness | Worker> = Layer.effectDiscard(
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const worker = yield* Worker
    const { concurrency } = yield* EngineConfig
    // Nobody sets this clock: a worker is not silent because the wall clock moved.
    const monotonicMs = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)
    const startedAt = yield* monotonicMs
    const check = Effect.gen(function* () {
      if ((yield* worker.running) >= concurrency) return true
      // One that has just begun has not failed yet.
      const nextClaimBy = (yield* worker.nextClaimBy) ?? startedAt
      const now = yield* monotonicMs
      return now - nextClaimBy <= claimSilenceMs
    })
    yield* readiness.add("worker", check)
  }),
)
