import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { EngineClosed, requireNumber, requireOptions } from "../domain/index.ts"
import { requireSignal } from "../domain/knownNames.ts"
import { CallerSpan } from "../engine/CallerSpan.ts"
import { runDeliveries } from "../worker/maintenance/deliverFinished.ts"
import { runSchedules } from "../worker/maintenance/fireSchedules.ts"
import { requireOriginal, Worker } from "../worker/index.ts"
import { type Assembly, type EmbeddedContext, type EmbeddedServices, layerEmbedded } from "./layerEmbedded.ts"
import { stopOptions } from "./optionNames.ts"

/** Runs an operation as a promise that rejects with the error it fails with. Aborting the signal interrupts it. */
export type Run = <A, E>(effect: Effect.Effect<A, E, EmbeddedServices>, signal?: AbortSignal) => Promise<A>

/** Runs the operations of an embedded engine, and starts and stops it. */
export interface EngineRuntime {
  readonly context: EmbeddedContext
  readonly run: Run
  /** Runs an operation that never waits. Throws the error it fails with. */
  readonly runSync: <A, E>(effect: Effect.Effect<A, E, EmbeddedServices>) => A
  /** Aborted when the engine begins to close. */
  readonly closed: AbortSignal
  /** Aborted when the engine has stopped. */
  readonly ended: AbortSignal
  /** Makes a worker of this process look at the schedules. */
  readonly schedulesChanged: () => void
  readonly start: () => Promise<void>
  readonly stop: (options?: { readonly drainMs?: number }) => Promise<void>
}

/** Starts the worker in a scope, and what fires schedules and calls `onFinished` unless the caller does that. A change ends pauses. */
const startIn = (scope: Scope.Scope, schedulesChanged: Effect.Effect<void> | undefined) =>
  Effect.gen(function* () {
    yield* requireOriginal
    yield* (yield* Worker).start
    if (schedulesChanged === undefined) return
    yield* Effect.forkScoped(runSchedules(schedulesChanged))
    yield* Effect.forkScoped(runDeliveries)
  }).pipe(Effect.provideService(Scope.Scope, scope))

const throwIfAborted = (signal: AbortSignal | undefined): void => {
  requireSignal("signal", signal)
  signal?.throwIfAborted()
}

/** Opens the stores. Rejects when one of them cannot be opened, after closing the others. */
export const openRuntime = async (assembly: Assembly, working: boolean): Promise<EngineRuntime> => {
  let drainMs = assembly.settings.drainMs
  // The worker reads this when it stops: `stop` may have been called with another value.
  const settings = Object.defineProperty({ ...assembly.settings }, "drainMs", { get: () => drainMs })
  const runtime = ManagedRuntime.make(layerEmbedded({ ...assembly, settings }))
  const context = await runtime.context().catch(async (error: unknown) => {
    await runtime.dispose()
    throw error
  })
  const runsSchedules = assembly.sweeps !== false
  const schedulesChanged = Latch.makeUnsafe(false)
  const closing = new AbortController()
  const ended = new AbortController()
  const workerScope = Scope.makeUnsafe()
  const attached = Scope.makeUnsafe()
  let starting: Promise<void> | undefined
  let stopping: Promise<void> | undefined

  const settled = <A, E>(exit: Exit.Exit<A, E>, signal?: AbortSignal): A => {
    if (Exit.isSuccess(exit)) return exit.value
    if (Cause.hasInterruptsOnly(exit.cause)) signal?.throwIfAborted()
    throw Cause.squash(exit.cause)
  }
  const callerSpan = Context.get(context, CallerSpan)
  /** Makes the caller's active span the parent of spans. */
  const traced = <A, E>(effect: Effect.Effect<A, E, EmbeddedServices>): Effect.Effect<A, E, EmbeddedServices> => {
    const span = callerSpan?.()
    return span === undefined ? effect : Effect.provideService(effect, Tracer.ParentSpan, span)
  }
  const run: Run = async (effect, signal) => {
    throwIfAborted(signal)
    closing.signal.throwIfAborted()
    const either = signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal])
    return settled(await runtime.runPromiseExit(traced(effect), { signal: either }), either)
  }
  const close = async () => {
    closing.abort(new EngineClosed())
    await starting?.catch(() => undefined)
    // Closed in this order: users of the engine, the worker, the stores. A failure does not prevent the next one from closing.
    const ends = [
      () => runtime.runPromise(Scope.close(attached, Exit.void)),
      () => runtime.runPromise(Scope.close(workerScope, Exit.void)),
      () => runtime.dispose(),
    ]
    const failures: Array<unknown> = []
    for (const end of ends) await end().catch((error: unknown) => failures.push(error))
    ended.abort(new EngineClosed())
    if (failures.length > 0) throw failures[0]
  }
  return {
    context: Context.add(context, Scope.Scope, attached),
    run,
    runSync: (effect) => {
      closing.signal.throwIfAborted()
      return settled(runtime.runSyncExit(traced(effect)))
    },
    closed: closing.signal,
    ended: ended.signal,
    schedulesChanged: () => void Effect.runSync(schedulesChanged.release),
    start: async () => {
      if (!working) throw new TypeError("start() needs a worker, but this engine was created with worker: false")
      closing.signal.throwIfAborted()
      starting ??= runtime.runPromise(startIn(workerScope, runsSchedules ? schedulesChanged.await : undefined))
      // A copy that is adopted can be started then.
      starting.catch(() => (starting = undefined))
      return starting
    },
    stop: (options = {}) => {
      requireOptions("stop()", options, stopOptions)
      if (options.drainMs !== undefined) requireNumber("drainMs", options.drainMs, { least: 0 })
      if (stopping === undefined) drainMs = options.drainMs ?? drainMs
      return (stopping ??= close())
    },
  }
}
