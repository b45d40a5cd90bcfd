import { Cause, Clock, Context, Effect, Fiber, Layer, type Scope, Stream } from "effect"
import { EngineConfig } from "@kiln/core"
import { idBody } from "@kiln/core/domain"
import { BlobStore, IdGenerator, Switchboard } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"

/** What `/readyz` says: ready when every check is. */
export interface ReadinessReport {
  readonly status: "ready" | "unavailable"
  readonly checks: Readonly<Record<string, "ok" | "failing">>
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
    readonly report: Effect.Effect<ReadinessReport>
  }
>()("@kiln/http/Readiness") {
  static readonly layer: Layer.Layer<Readiness> = Layer.sync(Readiness, () => {
    const checks = new Map<string, Effect.Effect<boolean, unknown>>()
    // In a fiber of its own: a check that cannot be interrupted must not hold up the answer.
    const run = (name: string, check: Effect.Effect<boolean, unknown>): Effect.Effect<boolean> =>
      Effect.flatMap(Effect.forkDetach(check), Fiber.join).pipe(
        Effect.timeoutOrElse({ duration: checkLimitMs, orElse: () => Effect.succeed(false) }),
        Effect.catchCause((cause) => Effect.as(Effect.logWarning(`not ready: ${name}`, Cause.pretty(cause)), false)),
      )
    return Readiness.of({
      add: (name, check) =>
        Effect.acquireRelease(
          Effect.sync(() => void checks.set(name, check)),
          () => Effect.sync(() => (checks.get(name) === check ? void checks.delete(name) : undefined)),
        ),
      report: Effect.gen(function* () {
        const results = yield* Effect.forEach(
          [...checks],
          ([name, check]) => Effect.map(run(name, check), (ok) => [name, ok] as const),
          { concurrency: "unbounded" },
        )
        return {
          status: results.every(([, ok]) => ok) ? "ready" : "unavailable",
          checks: Object.fromEntries(results.map(([name, ok]) => [name, ok ? "ok" : "failing"] as const)),
        } satisfies ReadinessReport
      }),
    })
  })
}

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
      const writes = switchboard.publishWorker({ workerId: "readiness", liveKinds: [], ttlMs: 0 })
      const putAndRemove = Effect.gen(function* () {
        const key = `probe/${idBody(yield* ids.next("req"))}`
        yield* blobs.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 })
        yield* blobs.remove(key)
      })
      yield* readiness.add("writes", yield* Effect.cachedWithTTL(Effect.as(writes, true), writeCheckMs))
      yield* readiness.add("blobs", yield* Effect.cachedWithTTL(Effect.as(putAndRemove, true), writeCheckMs))
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
    const startedAt = yield* Clock.currentTimeMillis
    const check = Effect.gen(function* () {
      if ((yield* worker.running) >= concurrency) return true
      // One that has just begun has not failed yet.
      const nextClaimBy = (yield* worker.nextClaimBy) ?? startedAt
      const now = yield* Clock.currentTimeMillis
      return now - nextClaimBy <= claimSilenceMs
    })
    yield* readiness.add("worker", check)
  }),
)
