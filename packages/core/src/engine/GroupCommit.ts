import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { StoreUnavailable } from "../domain/index.ts"
import { JobStore, UploadStore, ShortLockWait } from "../ports/index.ts"

/** Items of one store call at most. */
const maxBatchSize = 500

const engineClosed = Effect.fail(new StoreUnavailable({ operation: "groupCommit", cause: "the engine is closed" }))

type BatchVerb<In, Out> = (items: ReadonlyArray<In>) => Effect.Effect<ReadonlyArray<Out>, StoreUnavailable>

interface Waiting<In, Out> {
  readonly items: ReadonlyArray<In>
  readonly outcome: Deferred.Deferred<ReadonlyArray<Out>, StoreUnavailable>
}

/** The first of those who wait, as many as one call may hold. */
const firstBatch = <In, Out>(waiting: ReadonlyArray<Waiting<In, Out>>): ReadonlyArray<Waiting<In, Out>> => {
  let size = 0
  let count = 0
  for (const entry of waiting) {
    if (count > 0 && size + entry.items.length > maxBatchSize) break
    size += entry.items.length
    count += 1
  }
  return waiting.slice(0, count)
}

/** Calls the verb once for a whole batch and answers everybody in it, at once or when what somebody else holds is free. */
const committing = <In, Out>(verb: BatchVerb<In, Out>) => {
  const severed = new Set<Fiber.Fiber<void>>()

  const commit = (batch: ReadonlyArray<Waiting<In, Out>>, briefly: boolean): Effect.Effect<void> => {
    const call = Effect.suspend(() => verb(batch.flatMap((entry) => entry.items)))
    return Effect.flatMap(Effect.exit(Effect.provideService(call, ShortLockWait, briefly)), (exit) => {
      if (Exit.isSuccess(exit)) {
        let offset = 0
        for (const { items, outcome } of batch) {
          Deferred.doneUnsafe(outcome, Effect.succeed(exit.value.slice(offset, offset + items.length)))
          offset += items.length
        }
        return Effect.void
      }
      const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
      // A defect may be one caller's alone: the others must not share it.
      if (batch.length > 1 && error === undefined)
        return Effect.forEach(batch, (entry) => commit([entry], briefly), { discard: true })
      // Nor the waiting for what somebody else holds, and neither must those who come next.
      if (briefly && error?.contended === true) return Effect.forEach(batch, sever, { discard: true })
      for (const { outcome } of batch) Deferred.doneUnsafe(outcome, exit)
      return Effect.void
    })
  }

  /** Lets one caller wait by itself. Of no scope, which could be closed by now: then nobody would be answered. */
  const sever = (entry: Waiting<In, Out>): Effect.Effect<void> =>
    Effect.map(Effect.forkDetach(commit([entry], false), { uninterruptible: true }), (fiber) => {
      severed.add(fiber)
      fiber.addObserver(() => severed.delete(fiber))
    })

  return {
    commit: (batch: ReadonlyArray<Waiting<In, Out>>) => commit(batch, true),
    severedEnded: Effect.suspend(() => Fiber.awaitAll([...severed])),
  }
}

/**
 * Lets concurrent callers of a batch verb share one call, and so one commit: whoever calls while
 * a call is under way, or in the same turn, is in the next one. Each caller still waits until its
 * own items are durable. A caller that is interrupted leaves its items in the batch: what was
 * asked for happens whole or not at all, never half.
 *
 * Before each call `gather` lets others join: whoever is about to call in this turn, unless it is said otherwise.
 */
export const groupCommit = <In, Out>(
  verb: BatchVerb<In, Out>,
  gather: Effect.Effect<void> = Effect.yieldNow,
): Effect.Effect<BatchVerb<In, Out>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    let waiting: Array<Waiting<In, Out>> = []
    let draining = false
    let closed = false

    const { commit, severedEnded } = committing(verb)

    const drain: Effect.Effect<void> = Effect.gen(function* () {
      while (waiting.length > 0) {
        yield* gather
        yield* Effect.uninterruptible(
          Effect.suspend(() => {
            const batch = firstBatch(waiting)
            waiting = waiting.slice(batch.length)
            return commit(batch)
          }),
        )
      }
      draining = false
    })

    // A call is shared by several callers, so it is not part of the first one's trace.
    const untraced = Effect.updateContext(drain, (context: Context.Context<never>) =>
      Context.omit(Tracer.ParentSpan)(context),
    )

    // Added before the drain fiber, and so run after it: calls in progress have ended by then.
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        closed = true
        for (const { outcome } of waiting) Deferred.doneUnsafe(outcome, engineClosed)
        waiting = []
        return severedEnded
      }),
    )

    return (items) =>
      items.length === 0
        ? Effect.succeed([])
        : // Whoever says that it drains must come to do so: only the waiting may be interrupted.
          Effect.uninterruptibleMask((restore) =>
            Effect.gen(function* () {
              if (closed) return yield* engineClosed
              const outcome = Deferred.makeUnsafe<ReadonlyArray<Out>, StoreUnavailable>()
              waiting.push({ items, outcome })
              if (!draining) {
                draining = true
                yield* Effect.forkIn(Effect.interruptible(untraced), scope)
              }
              return yield* restore(Deferred.await(outcome))
            }),
          )
  })

/**
 * The stores whose single calls share commits. They stand between any adapter and the engine.
 * Heartbeats are one call for all leases of a process already, and must not wait for each other.
 */
export const layerGroupCommit: Layer.Layer<JobStore | UploadStore, never, JobStore | UploadStore> = Layer.merge(
  Layer.effect(
    JobStore,
    Effect.gen(function* () {
      const store = yield* JobStore
      return JobStore.of({
        ...store,
        createJobs: yield* groupCommit(store.createJobs),
        checkpointJobs: yield* groupCommit(store.checkpointJobs),
        completeJobs: yield* groupCommit(store.completeJobs),
        failJobs: yield* groupCommit(store.failJobs),
        deferJobs: yield* groupCommit(store.deferJobs),
        releaseJobs: yield* groupCommit(store.releaseJobs),
        eraseJobs: yield* groupCommit(store.eraseJobs),
      })
    }),
  ),
  Layer.effect(
    UploadStore,
    Effect.gen(function* () {
      const store = yield* UploadStore
      return UploadStore.of({ ...store, createUploads: yield* groupCommit(store.createUploads) })
    }),
  ),
)
