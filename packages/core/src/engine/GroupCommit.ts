import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { StoreUnavailable } from "../domain/index.ts"
import {
  Audited,
  BlobStore,
  type Checkpoint,
  type ChunkWrite,
  type ClaimRef,
  type Completion,
  type CreateOutcome,
  type Deferral,
  type EraseOutcome,
  type Erasure,
  type Failure,
  type FencedOutcome,
  JobDirectory,
  JobStore,
  type NewJob,
  ShortLockWait,
  UploadStore,
  WakeUp,
} from "../ports/index.ts"
import { filesInProgress, whileBlobsPresent } from "./blobs.ts"
import { JobEvents } from "./JobEvents.ts"
import { type ClaimingWorker, makeJointWrites } from "./jointWrites.ts"

/** Maximum number of items in one store call, unless a single caller has more. */
const maxBatchSize = 500

/** Maximum number of jobs in one read. An answer may have 64 KB for each. */
const maxReadSize = 100

/** Number of callers whose items are worth a call of their own while another call is in progress. Each call costs the store something. */
const minParallelBatch = 100

type BatchVerb<In, Out> = (items: ReadonlyArray<In>) => Effect.Effect<ReadonlyArray<Out>, StoreUnavailable>

type Settle<Out> = (exit: Exit.Exit<ReadonlyArray<Out>, StoreUnavailable>) => void

/** A batch verb whose concurrent callers share calls of the verb below it. */
export interface GroupedVerb<In, Out> {
  (items: ReadonlyArray<In>): Effect.Effect<ReadonlyArray<Out>, StoreUnavailable>
  /**
   * Adds items to the next call, without a fiber for the caller. `settle` is called once, with the outcomes of these items in
   * their order or with the failure of the call: later, or before `push` returns when the engine is closed. An exception in
   * `settle` is logged and affects nobody else.
   */
  readonly push: (items: ReadonlyArray<In>, settle: Settle<Out>) => void
}

interface Waiting<In, Out> {
  readonly items: ReadonlyArray<In>
  readonly settle: Settle<Out>
}

/** Removes the first entries from the list, as many as one call may hold, and returns them. */
const detachBatch = <In, Out>(waiting: Array<Waiting<In, Out>>, maxItems: number): ReadonlyArray<Waiting<In, Out>> => {
  let size = 0
  let count = 0
  for (const entry of waiting) {
    if (count > 0 && size + entry.items.length > maxItems) break
    size += entry.items.length
    count += 1
  }
  return waiting.splice(0, count)
}

/** Settles one entry. An exception in its callback goes to `report`, so that the rest of the batch is settled. */
const settleEntry = <In, Out>(
  entry: Waiting<In, Out>,
  exit: Exit.Exit<ReadonlyArray<Out>, StoreUnavailable>,
  report: (error: unknown) => void,
): void => {
  try {
    entry.settle(exit)
  } catch (error) {
    report(error)
  }
}

/** Calls the verb once for a whole batch and settles every entry, now or once a conflicting transaction has ended. */
const committing = <In, Out>(verb: BatchVerb<In, Out>, report: (error: unknown) => void) => {
  const severed = new Set<Fiber.Fiber<void>>()

  const commit = (batch: ReadonlyArray<Waiting<In, Out>>, briefly: boolean): Effect.Effect<void> => {
    const call = Effect.suspend(() => verb(batch.flatMap((entry) => entry.items)))
    return Effect.flatMap(Effect.exit(Effect.provideService(call, ShortLockWait, briefly)), (exit) => {
      if (Exit.isSuccess(exit)) {
        let offset = 0
        for (const entry of batch) {
          settleEntry(entry, Exit.succeed(exit.value.slice(offset, offset + entry.items.length)), report)
          offset += entry.items.length
        }
        return Effect.void
      }
      const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
      // One caller may have caused the defect: the others must not share it.
      if (batch.length > 1 && error === undefined)
        return Effect.forEach(batch, (entry) => commit([entry], briefly), { discard: true })
      // Only the callers whose items conflict wait, not the whole batch and not the next one.
      if (briefly && error?.contended === true) return Effect.forEach(batch, sever, { discard: true })
      for (const entry of batch) settleEntry(entry, exit, report)
      return Effect.void
    })
  }

  /** Commits one entry in its own fiber. Detached, because the scope may be closing: the caller must still be settled. */
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

interface Grouping<In> {
  /** Runs before each call and lets more join than those that are about to call in this turn. Is given the items that wait. */
  readonly gather?: ((items: Iterable<In>) => Effect.Effect<void>) | undefined
  /** Maximum number of calls in progress at the same time; default 1. */
  readonly parallelCalls?: number | undefined
  /** Number of callers that must wait before there is one more call at the same time. */
  readonly minParallel?: number
  /** Maximum number of items in one call, unless a single caller has more. */
  readonly maxItems?: number
}

const engineClosed = () => Exit.fail(new StoreUnavailable({ operation: "groupCommit", cause: "the engine is closed" }))

/**
 * Lets concurrent callers of a batch verb share one call, and so one commit. Items that arrive during a call, or in the same
 * turn, are in the next one. Calls may overlap, so items of different callers may be written in any order. Each caller waits until its
 * own items are durable. An interrupted caller leaves its items in the batch: a request happens whole or not at all.
 */
export const groupCommit = <In, Out>(
  verb: BatchVerb<In, Out>,
  { gather, maxItems = maxBatchSize, minParallel = minParallelBatch, parallelCalls = 1 }: Grouping<In> = {},
): Effect.Effect<GroupedVerb<In, Out>, never, Scope.Scope> =>
  Effect.gen(function* () {
    // Several callers share a call, so it is not part of the trace of one of them.
    const context = Context.omit(Tracer.ParentSpan)(yield* Effect.context())
    const fork = Effect.runForkWith(context)
    const dispatcher = Context.get(context, Scheduler.Scheduler).makeDispatcher()
    const report = (error: unknown) => void fork(Effect.logError("a callback of a shared store call failed", error))
    const { commit, severedEnded } = committing(verb, report)
    const waiting: Array<Waiting<In, Out>> = []
    const drains = new Set<Fiber.Fiber<void>>()
    let draining = 0
    /** Calls that begin in the next turn. */
    let starting = 0
    let closed = false

    // Detached before it is settled: a settled caller runs at once and may push again.
    const commitNext = Effect.uninterruptible(
      Effect.suspend(() => (waiting.length === 0 ? Effect.void : commit(detachBatch(waiting, maxItems)))),
    )
    const gatherAndCommit =
      gather === undefined
        ? commitNext
        : Effect.andThen(
            Effect.suspend(() => gather(waiting.flatMap(({ items }) => items))),
            commitNext,
          )
    /** Whether enough is waiting for one more call beside `others`. */
    const isWorthACall = (others: number): boolean =>
      others === 0 ? waiting.length > 0 : others < parallelCalls && waiting.length - starting * maxItems >= minParallel
    const drain: Effect.Effect<void> = Effect.flatMap(gatherAndCommit, () => {
      if (isWorthACall(draining - 1)) return Effect.andThen(Effect.yieldNow, drain)
      draining -= 1
      return Effect.void
    })
    /** Runs a turn after the first item was pushed, so that others that are about to call in this turn can join. */
    const start = (): void => {
      starting -= 1
      // What waits was settled at the close.
      if (closed) return
      const fiber = fork(drain)
      drains.add(fiber)
      fiber.addObserver(() => drains.delete(fiber))
    }

    yield* Effect.addFinalizer(() =>
      Effect.gen(function* () {
        closed = true
        // A call in progress ends and settles its callers.
        yield* Fiber.interruptAll(drains)
        for (const entry of waiting.splice(0)) settleEntry(entry, engineClosed(), report)
        yield* severedEnded
      }),
    )

    const push = (items: ReadonlyArray<In>, settle: Settle<Out>): void => {
      if (closed) return settle(engineClosed())
      waiting.push({ items, settle })
      if (!isWorthACall(draining)) return
      draining += 1
      starting += 1
      dispatcher.scheduleTask(start, 0)
    }
    return Object.assign(
      (items: ReadonlyArray<In>): Effect.Effect<ReadonlyArray<Out>, StoreUnavailable> =>
        items.length === 0
          ? Effect.succeed([])
          : Effect.withFiber((fiber) =>
              // The entry of an operator's change is written in the transaction of this call, which no other caller shares.
              Context.get(fiber.context, Audited) === undefined
                ? Effect.callback((resume) => push(items, resume))
                : verb(items),
            ),
      { push },
    )
  })

/** Completions of jobs with files wait for those whose files are being written. */
const gatherFiles = (blobs: BlobStore["Service"]) => {
  const { settle } = filesInProgress(blobs)
  return (completions: Iterable<Completion>): Effect.Effect<void> =>
    [...completions].every(({ files }) => files.length > 0) ? settle : Effect.void
}

/**
 * The verbs of `JobStore` whose callers share calls, for parts of the engine that push items without a fiber each. They bypass
 * the spans of the store's verbs. `extendLeases` is not among them: a heartbeat is one call for all leases of a process.
 */
export class GroupCommit extends Context.Service<
  GroupCommit,
  {
    readonly createJobs: GroupedVerb<NewJob, CreateOutcome>
    readonly checkpointJobs: GroupedVerb<Checkpoint, FencedOutcome>
    readonly appendChunks: GroupedVerb<ChunkWrite, FencedOutcome>
    readonly completeJobs: GroupedVerb<Completion, FencedOutcome>
    readonly failJobs: GroupedVerb<Failure, FencedOutcome>
    readonly deferJobs: GroupedVerb<Deferral, FencedOutcome>
    readonly releaseJobs: GroupedVerb<ClaimRef, FencedOutcome>
    readonly eraseJobs: GroupedVerb<Erasure, EraseOutcome>
    /** Lets creations and completions claim for a worker of this process. Returns the function that ends this. */
    readonly claimFor: (worker: ClaimingWorker) => () => void
  }
>()("@kiln/core/engine/GroupCommit") {}

/**
 * Lets readers of jobs share calls if the store gains from that. Readers of one turn do, and those that arrive during a call; a second call may run
 * beside it, so that a reader does not always wait for the one before. Each sees at least what was committed when it asked.
 */
const sharedReaders = Effect.fnUntraced(function* (store: JobStore["Service"], directory: JobDirectory["Service"]) {
  const { parallelReads: parallelCalls } = store
  if (parallelCalls === undefined) return { store: {}, directory }
  const grouping = { parallelCalls, minParallel: 1, maxItems: maxReadSize }
  return {
    store: {
      findJobs: yield* groupCommit(store.findJobs, grouping),
      pollJobs: yield* groupCommit(store.pollJobs, grouping),
    },
    directory: JobDirectory.of({ ...directory, readJobs: yield* groupCommit(directory.readJobs, grouping) }),
  }
})

/**
 * The stores whose single calls share commits, or reads where the store gains from that, and `GroupCommit`. They stand between any adapter and the engine. A call that
 * created jobs wakes workers once, or claims for an idle one, and emits the jobs' `queued` events, before its callers are settled.
 * While the blob store is gone, creations and claims fail.
 */
export const layerGroupCommit: Layer.Layer<
  GroupCommit | JobStore | JobDirectory | UploadStore,
  never,
  JobStore | JobDirectory | UploadStore | WakeUp | JobEvents
> = Layer.effectContext(
  Effect.gen(function* () {
    const blobs = Option.getOrUndefined(yield* Effect.serviceOption(BlobStore))
    const { store, uploads } = whileBlobsPresent(blobs, yield* JobStore, yield* UploadStore)
    const directory = yield* JobDirectory
    const joint = makeJointWrites(store, { wakeUp: yield* WakeUp, events: yield* JobEvents, directory })
    const grouped = {
      createJobs: yield* groupCommit(joint.createJobs, { parallelCalls: store.parallelCreations }),
      checkpointJobs: yield* groupCommit(store.checkpointJobs),
      appendChunks: yield* groupCommit(store.appendChunks),
      completeJobs: yield* groupCommit(joint.completeJobs, { gather: blobs && gatherFiles(blobs) }),
      failJobs: yield* groupCommit(store.failJobs),
      deferJobs: yield* groupCommit(store.deferJobs),
      releaseJobs: yield* groupCommit(store.releaseJobs),
      eraseJobs: yield* groupCommit(store.eraseJobs),
    }
    const readers = yield* sharedReaders(store, directory)
    return Context.make(GroupCommit, { ...grouped, claimFor: joint.claimFor }).pipe(
      Context.add(JobStore, JobStore.of({ ...store, ...readers.store, ...grouped })),
      Context.add(JobDirectory, readers.directory),
      Context.add(
        UploadStore,
        UploadStore.of({ ...uploads, createUploads: yield* groupCommit(uploads.createUploads) }),
      ),
    )
  }),
)
