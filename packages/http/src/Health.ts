import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { EngineConfig } from "@kiln/core/effect"
import { idBody, type JsonObject } from "@kiln/core/domain"
import { BlobStore, IdGenerator, Switchboard } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { providerStandings } from "./providerStandings.ts"
import { jsonReply } from "./server/Exchange.ts"
import type { Handler } from "./server/app.ts"

/** The response of `/readyz`: ready when every check passes and the process is not shutting down. */
export interface ReadinessReport {
  readonly status: "ready" | "unavailable" | "stopping"
  readonly checks: Readonly<Record<string, "ok" | "failing">>
  /** Further information, which does not affect readiness. */
  readonly details: Readonly<Record<string, JsonObject>>
}

/** Milliseconds a report waits for a check. A slower check counts with its previous result. */
const answerLimitMs = 2_000

/**
 * Interval in milliseconds of the watch that detects a hanging check. It counts intervals rather than milliseconds, so that
 * a busy process is not mistaken for a hanging check: a late event loop makes intervals longer, and a result that has
 * arrived is noticed in each of them.
 */
const turnMs = 500
/** Intervals after which a check without a result fails: 30 s, or longer if the event loop was late. */
const hangTurns = 60

const turns = (count: number): Effect.Effect<void> =>
  Effect.asVoid(Effect.repeat(Effect.sleep(turnMs), { times: count - 1 }))

interface AddedCheck {
  readonly check: Effect.Effect<boolean, unknown>
  readonly goodForMs: number
  /** The latest result; `undefined` before the first one. */
  verdict: boolean | undefined
  /** Time of the latest result. */
  answeredAt: number
  /** Completes when the pending run has a result or is given up. */
  asked: Deferred.Deferred<void> | undefined
}

/** Runs a check in a detached fiber, because an uninterruptible check must delay neither the report nor later checks. */
const ask = (name: string, added: AddedCheck): Effect.Effect<Deferred.Deferred<void>> =>
  Effect.gen(function* () {
    if (added.asked !== undefined) return added.asked
    const asked = yield* Deferred.make<void>()
    added.asked = asked
    const settle = (verdict: boolean) =>
      Effect.gen(function* () {
        // A run that was given up may still complete.
        if (added.asked !== asked) return
        added.verdict = verdict
        added.answeredAt = yield* Clock.currentTimeMillis
        added.asked = undefined
        yield* Deferred.succeed(asked, undefined)
      })
    const notReady = (why: string) => Effect.as(Effect.logWarning(`not ready: ${name}`, why), false)
    const checking = yield* Effect.forkDetach(
      added.check.pipe(
        Effect.catchCause((cause) => notReady(Cause.pretty(cause))),
        Effect.flatMap(settle),
      ),
    )
    yield* Effect.forkDetach(
      Effect.gen(function* () {
        yield* Effect.raceFirst(turns(hangTurns), Deferred.await(asked))
        if (added.asked !== asked) return
        yield* settle(yield* notReady(`no result for ${(hangTurns * turnMs) / 1_000} s`))
        yield* Fiber.interrupt(checking)
      }),
    )
    return asked
  })

/** Returns the current result of a check, or its previous one if it is slow. Without any result it fails. */
const verdictOf = (name: string, added: AddedCheck): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const isGood = (yield* Clock.currentTimeMillis) - added.answeredAt < added.goodForMs
    if (added.verdict === undefined || !isGood)
      yield* Effect.timeoutOption(Deferred.await(yield* ask(name, added)), answerLimitMs)
    return added.verdict ?? false
  })

/**
 * Tells whether this process can work right now. Each part of the process adds a named check. The error of a failing check
 * is logged, and not returned to the caller.
 */
export class Readiness extends Context.Service<
  Readiness,
  {
    /**
     * Adds a check until the scope closes. It returns true when healthy; a failure counts as false. A check that takes more
     * than 2 s counts with its previous result, and as false after 30 s without a result; longer in a busy process.
     * @param goodForMs milliseconds for which a result is cached, default 0.
     */
    readonly add: (
      name: string,
      check: Effect.Effect<boolean, unknown>,
      goodForMs?: number,
    ) => Effect.Effect<void, never, Scope.Scope>
    /** Adds a detail until the scope closes. A detail that fails or takes more than 2 s is omitted. */
    readonly addDetail: (
      name: string,
      detail: Effect.Effect<JsonObject, unknown>,
    ) => Effect.Effect<void, never, Scope.Scope>
    readonly report: Effect.Effect<ReadinessReport>
    /**
     * Reports `stopping` from now on, and makes every response the last one of its connection, so that load balancers send
     * requests elsewhere while this process still answers them. Calling it again has no effect.
     */
    readonly markStopping: Effect.Effect<void>
    readonly isStopping: () => boolean
    /** Calls the listener once a shutdown has begun, until the returned function is called. */
    readonly onStopping: (listener: () => void) => () => void
  }
>()("@kiln/http/Readiness") {
  static readonly layer: Layer.Layer<Readiness> = Layer.sync(Readiness, () => {
    const checks = new Map<string, AddedCheck>()
    const details = new Map<string, Effect.Effect<JsonObject, unknown>>()
    let stopping = false
    const listeners = new Set<() => void>()
    const statusOf = (isReady: boolean) => (stopping ? "stopping" : isReady ? "ready" : "unavailable")
    // In a detached fiber, as above.
    const known = (name: string, detail: Effect.Effect<JsonObject, unknown>) =>
      Effect.flatMap(Effect.forkDetach(detail), Fiber.join).pipe(
        Effect.timeoutOrElse({ duration: answerLimitMs, orElse: () => Effect.undefined }),
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning(`detail unavailable: ${name}`, Cause.pretty(cause)), undefined),
        ),
      )
    const all = <A, B>(entries: ReadonlyMap<string, A>, look: (name: string, entry: A) => Effect.Effect<B>) =>
      Effect.forEach(
        [...entries],
        ([name, entry]) => Effect.map(look(name, entry), (found) => [name, found] as const),
        { concurrency: "unbounded" },
      )
    return Readiness.of({
      add: (name, check, goodForMs = 0) =>
        registerIn(checks)(name, { check, goodForMs, verdict: undefined, answeredAt: 0, asked: undefined }),
      addDetail: registerIn(details),
      report: Effect.gen(function* () {
        const [results, found] = yield* Effect.all([all(checks, verdictOf), all(details, known)], {
          concurrency: "unbounded",
        })
        return {
          status: statusOf(results.every(([, ok]) => ok)),
          checks: Object.fromEntries(results.map(([name, ok]) => [name, ok ? "ok" : "failing"] as const)),
          details: Object.fromEntries(
            found.flatMap(([name, detail]) => (detail === undefined ? [] : [[name, detail]])),
          ),
        } satisfies ReadinessReport
      }),
      markStopping: Effect.sync(() => {
        stopping = true
        for (const listener of listeners) listener()
      }),
      isStopping: () => stopping,
      onStopping: (listener) => {
        const entry = () => listener()
        listeners.add(entry)
        return () => void listeners.delete(entry)
      },
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

/** Milliseconds for which the result of the write check is cached, so that frequent requests do not wear out the disk. */
const writeCheckMs = 5_000

/**
 * Adds the checks `writes` and `blobs`: whether the stores accept writes right now. With a full or read-only disk, reads
 * still work, but the service is not ready.
 */
export const layerWriteReadiness: Layer.Layer<never, never, Readiness | Switchboard | BlobStore | IdGenerator> =
  Layer.effectDiscard(
    Effect.gen(function* () {
      const readiness = yield* Readiness
      const switchboard = yield* Switchboard
      const blobs = yield* BlobStore
      const ids = yield* IdGenerator
      // The entry has no other use: the check passes if the store accepts it.
      const writes = switchboard.publishWorker({ workerId: "readiness", liveKinds: [], providers: [], ttlMs: 0 })
      const putAndRemove = Effect.gen(function* () {
        const key = `probe/${idBody(ids.next("req"))}`
        yield* blobs.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 })
        yield* blobs.remove(key)
      })
      yield* readiness.add("writes", Effect.as(writes, true), writeCheckMs)
      yield* readiness.add("blobs", Effect.as(putAndRemove, true), writeCheckMs)
    }),
  )

/** Milliseconds for which the published state of workers is cached. */
const providersCheckMs = 1_000

/** Adds the detail `providers`: the state of live providers across all workers of the installation. */
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

/** Maximum time in milliseconds that a worker with free slots may go without a response to a due claim. */
const claimSilenceMs = 10_000
/** Number of consecutive checks that must find a worker late, because after a blocked event loop every worker is late once. */
const silentTurns = 10

/** Adds the check `worker`: the store responds to claims when they are due. A worker without free slots does not claim, and is healthy. */
export const layerWorkerReadiness: Layer.Layer<never, never, Readiness | Worker> = Layer.effectDiscard(
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const worker = yield* Worker
    const { concurrency } = yield* EngineConfig
    // A monotonic clock: a worker is not late because the wall clock was changed.
    const monotonicMs = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)
    const startedAt = yield* monotonicMs
    const isWell = Effect.gen(function* () {
      if ((yield* worker.running) >= concurrency) return true
      // A worker that has just started is healthy.
      const nextClaimBy = (yield* worker.nextClaimBy) ?? startedAt
      const now = yield* monotonicMs
      return now - nextClaimBy <= claimSilenceMs
    })
    const check = Effect.gen(function* () {
      for (let turn = 0; turn < silentTurns; turn++) {
        if (yield* isWell) return true
        yield* turns(1)
      }
      return yield* isWell
    })
    yield* readiness.add("worker", check)
  }),
)

/** Reports that the process is alive. Ignores its dependencies, because a restart would not fix them. */
export const healthz: Handler = () => Effect.succeed(jsonReply(200, { status: "ok" }))

/** Reports whether requests should be sent to this process now. */
export const readyz =
  (readiness: Readiness["Service"]): Handler =>
  () =>
    Effect.map(readiness.report, (report) =>
      report.status === "ready" ? jsonReply(200, report) : jsonReply(503, report, { "retry-after": "5" }),
    )
