import { Cause, Clock, Context, Deferred, Effect, Fiber, Layer, type Scope, Stream } from "effect"
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

/** Milliseconds a report waits for an answer. A check that takes longer says what it said before. */
const answerLimitMs = 2_000

/**
 * Milliseconds of one turn of the watch that tells a check that hangs from a process that is only busy. Turns are counted, not
 * milliseconds: an event loop that is late makes them longer, and in each of them an answer that has come is seen.
 */
const turnMs = 500
/** Turns after which a check that has not answered fails: 30 s, and longer where the event loop was late. */
const hangTurns = 60

const turns = (count: number): Effect.Effect<void> =>
  Effect.asVoid(Effect.repeat(Effect.sleep(turnMs), { times: count - 1 }))

interface AddedCheck {
  readonly check: Effect.Effect<boolean, unknown>
  readonly goodForMs: number
  /** What it said last; `undefined` before its first answer. */
  verdict: boolean | undefined
  /** When it said so. */
  answeredAt: number
  /** Done when the answer that is waited for has come, or is not waited for any more. */
  asked: Deferred.Deferred<void> | undefined
}

/** Asks, in a fiber that nobody waits for: a check that cannot be interrupted must hold up neither the answer nor later checks. */
const ask = (name: string, added: AddedCheck): Effect.Effect<Deferred.Deferred<void>> =>
  Effect.gen(function* () {
    if (added.asked !== undefined) return added.asked
    const asked = yield* Deferred.make<void>()
    added.asked = asked
    const settle = (verdict: boolean) =>
      Effect.gen(function* () {
        // One that was given up may answer late.
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
        yield* settle(yield* notReady(`no answer for ${(hangTurns * turnMs) / 1_000} s`))
        yield* Fiber.interrupt(checking)
      }),
    )
    return asked
  })

/** What a check says now, or said last where it takes its time. One that never answered is a no. */
const verdictOf = (name: string, added: AddedCheck): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const isGood = (yield* Clock.currentTimeMillis) - added.answeredAt < added.goodForMs
    if (added.verdict === undefined || !isGood)
      yield* Effect.timeoutOption(Deferred.await(yield* ask(name, added)), answerLimitMs)
    return added.verdict ?? false
  })

/**
 * Whether this process can do its work now. Each part of it adds a check under a name; what a check
 * fails with goes to the log, not to the caller.
 */
export class Readiness extends Context.Service<
  Readiness,
  {
    /**
     * Adds a check until the scope closes: it succeeds with whether all is well. A failure is a no. One that takes more than 2 s
     * counts as it did before, and as a no once it has not answered for 30 s; a busy process makes these longer.
     * @param goodForMs milliseconds for which an answer is not asked for again, default 0.
     */
    readonly add: (
      name: string,
      check: Effect.Effect<boolean, unknown>,
      goodForMs?: number,
    ) => Effect.Effect<void, never, Scope.Scope>
    /** Adds a detail until the scope closes. One that fails or takes more than 2 s is left out. */
    readonly addDetail: (
      name: string,
      detail: Effect.Effect<JsonObject, unknown>,
    ) => Effect.Effect<void, never, Scope.Scope>
    readonly report: Effect.Effect<ReadinessReport>
  }
>()("@kiln/http/Readiness") {
  static readonly layer: Layer.Layer<Readiness> = Layer.sync(Readiness, () => {
    const checks = new Map<string, AddedCheck>()
    const details = new Map<string, Effect.Effect<JsonObject, unknown>>()
    // In a fiber of its own, as above.
    const known = (name: string, detail: Effect.Effect<JsonObject, unknown>) =>
      Effect.flatMap(Effect.forkDetach(detail), Fiber.join).pipe(
        Effect.timeoutOrElse({ duration: answerLimitMs, orElse: () => Effect.undefined }),
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning(`no detail: ${name}`, Cause.pretty(cause)), undefined),
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
          status: results.every(([, ok]) => ok) ? "ready" : "unavailable",
          checks: Object.fromEntries(results.map(([name, ok]) => [name, ok ? "ok" : "failing"] as const)),
          details: Object.fromEntries(
            found.flatMap(([name, detail]) => (detail === undefined ? [] : [[name, detail]])),
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
      yield* readiness.add("writes", Effect.as(writes, true), writeCheckMs)
      yield* readiness.add("blobs", Effect.as(putAndRemove, true), writeCheckMs)
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
/** Turns for which a worker must be seen to be late: after a blocked event loop it has had no chance to be in time. */
const silentTurns = 10

/** Adds the check `worker`: the store answers its claims when they are due. A worker with all hands full does not claim, and is well. */
export const layerWorkerReadiness: Layer.Layer<never, never, Readiness | Worker> = Layer.effectDiscard(
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const worker = yield* Worker
    const { concurrency } = yield* EngineConfig
    // Nobody sets this clock: a worker is not silent because the wall clock moved.
    const monotonicMs = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)
    const startedAt = yield* monotonicMs
    const isWell = Effect.gen(function* () {
      if ((yield* worker.running) >= concurrency) return true
      // One that has just begun has not failed yet.
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
