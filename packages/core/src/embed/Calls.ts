import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as ManagedRuntime from "effect/ManagedRuntime"
import * as Tracer from "effect/Tracer"
import { requireSignal } from "../domain/givenValues.ts"
import type { CallerSpan } from "../engine/spans.ts"
import type { KeepAlive } from "./KeepAlive.ts"

/** Runs an operation as a promise that rejects with the error it fails with. Aborting the signal interrupts it. */
type Run<Services> = <A, E>(effect: Effect.Effect<A, E, Services>, signal?: AbortSignal) => Promise<A>

/** Runs the operations of callers. */
export interface Calls<Services> {
  /** Runs an operation that a stop cuts off. */
  readonly run: Run<Services>
  /**
   * Runs an operation that accepts a job. A stop lets those that have begun end: a caller that gets `engine_closed` submits its job
   * again elsewhere, and would have two.
   */
  readonly accept: Run<Services>
  /** Makes a stop wait for this too. */
  readonly accepting: <A>(call: Promise<A>) => Promise<A>
  /** Runs an operation that never waits. Throws the error it fails with. */
  readonly runSync: <A, E>(effect: Effect.Effect<A, E, Services>) => A
  /** Resolves when no call that accepts a job is in progress, or when the stop gives up. */
  readonly settled: () => Promise<unknown>
}

/** Returns a signal that aborts with either one. Throws the reason of the caller's, if it has aborted. */
const eitherOf = (end: AbortSignal, signal: AbortSignal | undefined): AbortSignal => {
  requireSignal("signal", signal)
  signal?.throwIfAborted()
  return signal === undefined ? end : AbortSignal.any([end, signal])
}

const settled = <A, E>(exit: Exit.Exit<A, E>, signal?: AbortSignal): A => {
  if (Exit.isSuccess(exit)) return exit.value
  if (Cause.hasInterruptsOnly(exit.cause)) signal?.throwIfAborted()
  throw Cause.squash(exit.cause)
}

/** Makes the caller's active span the parent of spans. */
const tracedBy =
  (callerSpan: Context.Service.Shape<typeof CallerSpan>) =>
  <A, E, Services>(effect: Effect.Effect<A, E, Services>): Effect.Effect<A, E, Services> => {
    const span = callerSpan?.()
    return span === undefined ? effect : Effect.provideService(effect, Tracer.ParentSpan, span)
  }

const aborted = (signal: AbortSignal) =>
  new Promise<unknown>((resolve) => {
    if (signal.aborted) resolve(signal)
    else signal.addEventListener("abort", resolve, { once: true })
  })

/** `closing` refuses new calls and cuts `run` off, `ended` cuts off the rest. */
export const makeCalls = <Services>(
  runtime: ManagedRuntime.ManagedRuntime<Services, unknown>,
  keepAlive: KeepAlive,
  callerSpan: Context.Service.Shape<typeof CallerSpan>,
  { closing, ended }: { readonly closing: AbortSignal; readonly ended: AbortSignal },
): Calls<Services> => {
  const traced = tracedBy(callerSpan)
  const runUntil = async <A, E>(
    end: AbortSignal,
    effect: Effect.Effect<A, E, Services>,
    signal: AbortSignal | undefined,
  ): Promise<A> => {
    closing.throwIfAborted()
    const either = eitherOf(end, signal)
    return settled(await keepAlive.while(runtime.runPromiseExit(traced(effect), { signal: either })), either)
  }
  let inProgress = 0
  let whenSettled = (): void => undefined
  const accepting: Calls<Services>["accepting"] = async (call) => {
    inProgress += 1
    try {
      return await call
    } finally {
      inProgress -= 1
      if (inProgress === 0) whenSettled()
    }
  }
  const allSettled = () =>
    new Promise<void>((resolve) => {
      whenSettled = resolve
      if (inProgress === 0) resolve()
    })
  return {
    run: (effect, signal) => runUntil(closing, effect, signal),
    accept: (effect, signal) => accepting(runUntil(ended, effect, signal)),
    accepting,
    runSync: (effect) => {
      closing.throwIfAborted()
      return settled(runtime.runSyncExit(traced(effect)))
    },
    settled: () => Promise.race([allSettled(), aborted(ended)]),
  }
}
