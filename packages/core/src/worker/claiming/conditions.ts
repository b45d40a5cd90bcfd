import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { type Gate, missingPrerequisites, withForcedOff } from "../../domain/Gate.ts"
import { givenField, valueOf } from "../../domain/givenValues.ts"
import { type Board, type JobMode, StoreUnavailable } from "../../domain/index.ts"
import type { KindQuota } from "../../domain/JobsInProgress.ts"
import type { Rate } from "../../domain/Rate.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { installedKinds, portsOf } from "../../kinds/installedKinds.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { IdGenerator, RateLimitStore, type Runnable, Switchboard } from "../../ports/index.ts"
import type { CallRate } from "../../providers/ProviderGuard.ts"
import { Providers, type ProviderSet } from "../../providers/index.ts"
import { ProviderGuard } from "../../providers/ProviderGuard.ts"
import { limitedInSandbox } from "../../providers/sandboxLimits.ts"
import { SharedRate, type SharedRateOptions } from "./SharedRate.ts"

/** Turning a switch off must stop provider calls within a second, so an older board is read again. */
const maxAgeNanos = 500_000_000n
/** A board in use is read again in the background from this age on, so that jobs seldom wait for it. */
const refreshAgeNanos = maxAgeNanos / 2n
/** Maximum number of reads when the answers arrive too late to be used. */
const maxReads = 3

/** Caches the operator's switches, prices and pauses, so that not every step reads the store. */
export class GateWatch extends Context.Service<
  GateWatch,
  {
    /** Returns the prerequisites that are missing; empty if the gate is open. */
    readonly missing: (gate: Gate) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
    /** The switchboard as it was at most half a second ago. */
    readonly board: Effect.Effect<Board, StoreUnavailable>
  }
>()("@kiln/core/worker/GateWatch") {
  static readonly layer = Layer.effect(
    GateWatch,
    Effect.gen(function* () {
      const switchboard = yield* Switchboard
      const { forcedOff } = yield* EngineConfig
      const events = yield* JobEvents
      const scope = yield* Effect.scope
      let boardChanges = 0
      yield* Effect.acquireRelease(
        Effect.sync(() => events.listenTo("board", () => void (boardChanges += 1))),
        (stopListening) => Effect.sync(stopListening),
      )
      let latest: { readonly board: Board; readonly askedAtNanos: bigint; readonly changes: number } | undefined
      let refreshing = false

      /** Reads the board, and returns whether the answer is recent enough to be used. */
      const read = Effect.gen(function* () {
        const askedAtNanos = yield* Clock.monotonicTimeNanos
        const changes = boardChanges
        const board = withForcedOff(yield* switchboard.readBoard, forcedOff)
        latest = { board, askedAtNanos, changes }
        // The answer may describe any moment since the read began. If it took long, or this process was suspended, it may be
        // outdated.
        return (yield* Clock.monotonicTimeNanos) - askedAtNanos < maxAgeNanos ? board : undefined
      })
      const refresh = Effect.ensuring(
        Effect.ignore(read),
        Effect.sync(() => {
          refreshing = false
        }),
      )

      const board = Effect.gen(function* () {
        const now = yield* Clock.monotonicTimeNanos
        const ageNanos = latest?.changes === boardChanges ? now - latest.askedAtNanos : maxAgeNanos
        if (latest !== undefined && ageNanos < maxAgeNanos) {
          if (ageNanos >= refreshAgeNanos && !refreshing) {
            refreshing = true
            yield* Effect.forkIn(refresh, scope)
          }
          return latest.board
        }
        for (let asked = 0; asked < maxReads; asked++) {
          const answer = yield* read
          if (answer !== undefined) return answer
        }
        return yield* Effect.fail(
          new StoreUnavailable({ operation: "readBoard", cause: "switchboard reads were stale" }),
        )
      })
      return GateWatch.of({
        board,
        missing: (gate) => Effect.map(board, (now) => missingOf(gate, now)),
      })
    }),
  )
}

/** Returns the missing prerequisites of a job for a worker, which serves the kind and charges the price of its acceptance. */
const missingOf = (gate: Gate, board: Board): ReadonlyArray<string> =>
  missingPrerequisites({ ...gate, meters: [], liveWorker: null }, board, 0)

/** The rates of the installation that limit this worker, by the name of a provider, and by kind and mode. */
export class Rates extends Context.Service<
  Rates,
  {
    readonly ofProvider: (name: string) => CallRate<StoreUnavailable> | undefined
    readonly ofKind: (kind: string, mode: JobMode) => CallRate<StoreUnavailable> | undefined
    /**
     * Milliseconds until the first of those that had no room for the last claim may have some: 0 if it has some now, `undefined` if
     * none held back a job or only a running job can make room.
     */
    readonly nextInMs: Effect.Effect<number | undefined>
    /** Opened when a running job changes that time. */
    readonly change: Latch.Latch
    /** Open while a running job waits for a token. */
    readonly waits: Latch.Latch
    /** Forgets which rates held jobs back. Must be called before the rooms for a claim are determined. */
    readonly startClaim: () => void
  }
>()("@kiln/core/worker/Rates") {
  /** Dies with a `TypeError` if there are rates and the store cannot share them. */
  static readonly layer = Layer.effect(
    Rates,
    Effect.gen(function* () {
      const { providers: settings } = yield* EngineConfig
      const providers = yield* Providers
      const kinds = yield* installedKinds
      const ports = portsOf(kinds)
      const inSandbox = limitedInSandbox(providers, ports, settings)
      const isGuarded = (name: string) => givenField(providers.live, name) !== undefined || inSandbox.has(name)
      const ofProvider = ports.flatMap(({ bounds, name }) => {
        const { rate } = valueOf(settings, name) ?? bounds
        return rate === undefined || !isGuarded(name) ? [] : [[`provider ${name}`, rate] as const]
      })
      const ofKind = kinds.flatMap(({ limits: { rate }, name }) =>
        rate === undefined
          ? []
          : ([
              [`kind live ${name}`, rate],
              [`kind sandbox ${name}`, rate],
            ] as const),
      )
      const change = yield* Latch.make(false)
      const waits = yield* Latch.make(false)
      let waiting = 0
      const shared = yield* shareRates([...ofProvider, ...ofKind], {
        onChange: () => void change.openUnsafe(),
        onWait: (more) => {
          waiting += more
          if (waiting > 0) waits.openUnsafe()
          else waits.closeUnsafe()
        },
      })
      return Rates.of({
        ofProvider: (name) => shared.get(`provider ${name}`),
        // Asked several times for each job, most of which have no rate.
        ofKind: (kind, mode) => (shared.size === 0 ? undefined : shared.get(`kind ${mode} ${kind}`)),
        nextInMs: Effect.map(
          Effect.forEach([...shared.values()], ({ nextInMs }) => nextInMs),
          (times) => {
            const first = Math.min(...times.map((ms) => ms ?? Infinity))
            return first === Infinity ? undefined : first
          },
        ),
        change,
        waits,
        startClaim: () => {
          change.closeUnsafe()
          for (const rate of shared.values()) rate.startClaim()
        },
      })
    }),
  )
}

const shareRates = Effect.fnUntraced(function* (
  rates: ReadonlyArray<readonly [bucket: string, rate: Rate]>,
  on: Pick<SharedRateOptions, "onChange" | "onWait">,
) {
  const shared = new Map<string, SharedRate>()
  if (rates.length === 0) return shared
  const store = yield* Effect.serviceOption(RateLimitStore)
  if (store._tag === "None")
    return yield* Effect.die(
      new TypeError("the store has no RateLimitStore: remove the rates of providers and kinds, or use another store"),
    )
  const process = (yield* IdGenerator).next("req")
  for (const [bucket, rate] of rates)
    shared.set(bucket, yield* SharedRate.make({ bucket, rate, store: store.value, process, ...on }))
  return shared
})

/** The kinds that this process can run now, and the maximum number of jobs to claim at once. */
export interface RunnableNow {
  readonly runnable: ReadonlyArray<Runnable>
  readonly atMost: Readonly<Record<JobMode, number>>
  /** For the kinds that rates limit. */
  readonly quotas: ReadonlyArray<KindQuota>
  /** The concurrency limits that projects have of their own. */
  readonly projects: Board["projectConcurrency"]
}

/** Returns the providers that serve the kind here; `undefined` if none of its sets is complete. */
export const servedBy = (providers: ProviderSet, kind: JobKind): ReadonlyArray<string> | undefined =>
  kind.providers.find((names) => names.every((name) => givenField(providers, name) !== undefined))

/** The kinds this process can serve live, whether or not they may run now. */
export const liveKinds = Effect.gen(function* () {
  const { live } = yield* Providers
  return (yield* installedKinds).filter((kind) => servedBy(live, kind) !== undefined).map((kind) => kind.name)
})

/** Returns an entry for each version whose requests the kind can run. */
const versionsIn = (mode: JobMode, { name, readsFrom, version }: JobKind): ReadonlyArray<Runnable> =>
  Array.from({ length: version - readsFrom + 1 }, (_, n) => ({ kind: name, kindVersion: readsFrom + n, mode }))

/** The number of further jobs of each kind that the rates allow now; `Infinity` without rates. */
const roomIn = Effect.fnUntraced(function* (rates: ReadonlyArray<CallRate<unknown> | undefined>) {
  let count = Infinity
  for (const rate of rates) if (rate !== undefined) count = Math.min(count, yield* rate.room)
  return count
})

/**
 * The kinds that are not paused, whose providers are configured and, for live jobs, have capacity, and whose gate is open. A claim
 * does not limit concurrent calls of each kind separately, so it requests no more jobs than the kind with the least capacity can
 * run; the next claim follows soon. What rates allow is limited for each kind.
 */
export const runnableKinds: Effect.Effect<
  RunnableNow,
  StoreUnavailable,
  Providers | ProviderGuard | GateWatch | Rates
> = Effect.gen(function* () {
  const { live, sandbox } = yield* Providers
  const guard = yield* ProviderGuard
  const rates = yield* Rates
  const board = yield* (yield* GateWatch).board
  rates.startClaim()
  const quotas: Array<KindQuota> = []
  const add = (kind: JobKind, mode: JobMode, count: number) => {
    runnable.push(...versionsIn(mode, kind))
    if (count !== Infinity) quotas.push({ kind: kind.name, mode, count })
  }
  const runnable: Array<Runnable> = []
  const atMost = { live: Infinity, sandbox: Infinity }
  /** Adds a kind as far as its providers and rates allow it now. */
  const addGuarded = Effect.fnUntraced(function* (kind: JobKind, mode: JobMode, served: ReadonlyArray<string>) {
    const names = guard.guardedIn(mode, served)
    const room = names.length === 0 ? Infinity : yield* guard.room(names)
    if (room === 0) return
    const quota = yield* roomIn([rates.ofKind(kind.name, mode), ...guard.rates(names)])
    if (quota === 0) return
    add(kind, mode, quota)
    atMost[mode] = Math.min(atMost[mode], room)
  })
  for (const kind of yield* installedKinds) {
    if (board.pausedKinds.includes(kind.name)) continue
    const simulated = servedBy(sandbox, kind)
    if (simulated !== undefined) yield* addGuarded(kind, "sandbox", simulated)
    const names = servedBy(live, kind)
    if (names !== undefined && missingOf(kind.gate, board).length === 0) yield* addGuarded(kind, "live", names)
  }
  return { runnable, atMost, quotas, projects: board.projectConcurrency }
})
