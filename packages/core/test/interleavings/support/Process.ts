import {
  defaultEngineSettings,
  Engine,
  EngineConfig,
  type EngineSettings,
  Fingerprint,
  JobEvents,
  JobReader,
  layerGroupCommit,
  Operator,
} from "@kiln/core/effect"
import { IdGenerator, MediaProbe, WakeUp } from "@kiln/core/ports"
import {
  type GeneratedFile,
  type ProviderCall,
  type ProviderFailure,
  Providers,
  type ProviderSet,
} from "@kiln/core/providers"
import { formatId, type StoreUnavailable } from "@kiln/core/domain"
import { canonicalJson } from "@kiln/core/rules"
import { Worker } from "@kiln/core/worker"
import { fakeMp3 } from "@kiln/testing"
import { Clock, Context, Deferred, Effect, type Fiber, Layer, Logger, Random, Scheduler, type Scope } from "effect"
import { type Adapters, asContext } from "./Adapters.ts"
import type { VirtualClock } from "./VirtualClock.ts"

export interface ProcessOptions {
  readonly settings?: Partial<EngineSettings>
  /** Serves live jobs as well. */
  readonly live?: boolean
  /** How its speech provider answers instead of with a file. */
  readonly fails?: ProviderFailure
}

/** An engine and a worker, as far from the stores and from each other as processes are. */
export interface Process {
  readonly name: string
  /** Its own time; the stores have theirs. */
  readonly time: VirtualClock
  readonly does: <A, E>(effect: Effect.Effect<A, E, Services>) => Effect.Effect<A, E>
  /** Claims what there is and runs it to its end. */
  readonly tick: Effect.Effect<number, StoreUnavailable>
  /**
   * Starts an attempt (by `tick`, unless said otherwise) and returns once it has called its provider, whose answer waits
   * for the race to begin.
   */
  readonly startsAttempt: (
    by?: Effect.Effect<unknown, unknown, Services>,
  ) => Effect.Effect<Fiber.Fiber<unknown, unknown>>
}

/** What a process has from the world it is in. */
export interface Surroundings {
  readonly scope: Scope.Scope
  readonly adapters: Adapters
  readonly time: VirtualClock
  readonly nextId: () => number
  readonly called: (jobId: string, live: boolean) => void
  /** Done when the race begins. */
  readonly begun: Deferred.Deferred<void>
  readonly turn: (label: string) => Effect.Effect<void>
}

// Yielding fibers continue in the same turn of the event loop, because an order decided by the machine could not be replayed
// from a seed.
const microtasks = new Scheduler.MixedScheduler("async", (run) => {
  let canceled = false
  queueMicrotask(() => void (canceled || run()))
  return () => {
    canceled = true
  }
})

/** Time, chance and turns that are the same in every replay, and no log. */
export const surely = (time: VirtualClock) =>
  Context.make(Clock.Clock, time.clock).pipe(
    Context.add(Scheduler.Scheduler, microtasks),
    Context.add(Random.Random, { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 1 }),
    Context.add(Logger.CurrentLoggers, new Set()),
  )

const layerProcess = (
  adapters: Adapters,
  providers: Providers["Service"],
  nextId: () => number,
  more: EngineSettings,
) =>
  Worker.layer.pipe(
    Layer.provideMerge(Layer.merge(Engine.layer, Operator.layer)),
    Layer.provideMerge(Layer.merge(JobReader.layer, layerGroupCommit)),
    Layer.provideMerge(Layer.merge(WakeUp.layer, JobEvents.layer)),
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.succeedContext(asContext(adapters)),
        Layer.succeed(EngineConfig, more),
        Layer.succeed(Providers, providers),
        Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: 3 }) }),
        Layer.succeed(Fingerprint, { of: (kind, request) => `${kind} ${canonicalJson(request)}` }),
        Layer.succeed(IdGenerator, {
          next: (prefix) => formatId(prefix, Uint8Array.from({ length: 16 }).fill(nextId(), 15)),
        }),
      ),
    ),
  )

type Services = Layer.Success<ReturnType<typeof layerProcess>>

/** The bytes that only this process's speech provider produces. */
export const speechOf = (process: string) => fakeMp3(`speech of ${process}`)

export const makeProcess = Effect.fnUntraced(function* (name: string, options: ProcessOptions, around: Surroundings) {
  let firstCall: Deferred.Deferred<void> | undefined
  const answers = <A>(what: string, call: ProviderCall, live: boolean, answer: A) =>
    Effect.gen(function* () {
      around.called(call.jobId, live)
      if (firstCall !== undefined) {
        yield* Deferred.succeed(firstCall, undefined)
        yield* Deferred.await(around.begun)
      }
      yield* around.turn(`${name}: ${what}`)
      return answer
    })
  const providers = (live: boolean): ProviderSet => ({
    transcription: (_, call) => answers("transcribed", call, live, { text: `heard by ${name}` }),
    reply: (_, call) => answers("replied", call, live, { text: `reply of ${name}`, outputTokens: 2, truncated: false }),
    speech: (_, call) =>
      Effect.flatMap(
        answers("spoken", call, live, { data: speechOf(name), mediaType: "audio/mpeg" }),
        (file): Effect.Effect<GeneratedFile, ProviderFailure> =>
          options.fails === undefined ? Effect.succeed(file) : Effect.fail(options.fails),
      ),
  })
  const layer = layerProcess(
    around.adapters,
    { sandbox: providers(false), live: options.live === true ? providers(true) : {} },
    around.nextId,
    { ...defaultEngineSettings, ...options.settings },
  )
  const references = surely(around.time)
  const built = yield* Effect.provide(
    Layer.buildWithMemoMap(layer, Layer.makeMemoMapUnsafe(), around.scope),
    references,
  )
  const context = Context.merge(references, built)
  const does: Process["does"] = (effect) => Effect.provide(effect, context)
  const tick = Effect.flatMap(Worker, (worker) => worker.tick)
  return {
    name,
    time: around.time,
    does,
    tick: does(tick),
    startsAttempt: (by) =>
      Effect.gen(function* () {
        const called = Deferred.makeUnsafe<void>()
        firstCall = called
        const fiber = yield* Effect.forkIn(does(by ?? tick), around.scope)
        yield* Deferred.await(called)
        return fiber
      }),
  } satisfies Process
})
