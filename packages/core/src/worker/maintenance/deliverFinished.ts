import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { type Job } from "../../domain/index.ts"
import { deliveryLeaseMs as leaseDurationMs, deliveryPauseMs } from "../../domain/Delivery.ts"
import { type FinishHandler, FinishHandlers, JobEvents } from "../../engine/index.ts"
import { DeliveryStore, JobDirectory } from "../../ports/index.ts"
import type { ClaimedDelivery } from "../../ports/DeliveryStore.ts"
import { described } from "../attempt/AttemptEnd.ts"
import { type DeliveryOutcome, tellBackground } from "../metrics/backgroundMetrics.ts"
import { makeOutageLog } from "../repeating.ts"

/** Maximum number of concurrent calls for one kind in one process. A receiver that hangs must not hold up the other kinds. */
const concurrency = 8
/** The duration of one call, after which its signal is aborted and the call counts as failed. */
const callTimeoutMs = 45_000
/** The pause between two looks. Ends of jobs in this process end it. */
const pauseMs = 5_000

type Handlers = ReadonlyMap<string, FinishHandler>

const claim = (kinds: ReadonlyArray<string>, limit: number) =>
  Effect.flatMap(DeliveryStore, (store) => store.claimDeliveries({ kinds, limit, leaseDurationMs }))

/** Calls the handler. Its signal is aborted when the call takes too long, and when this process stops. */
const call = (handler: FinishHandler, job: Job, attempt: number): Effect.Effect<unknown, unknown> =>
  Effect.tryPromise({ try: async (signal) => handler(job, attempt, signal), catch: (thrown) => thrown }).pipe(
    Effect.timeoutOrElse({
      duration: callTimeoutMs,
      orElse: () => Effect.fail(new Error(`the call took longer than ${callTimeoutMs / 1_000} s`)),
    }),
  )

/**
 * Makes one delivery: calls, and only then confirms. After a crash in between, the lease ends and a process calls again. A delivery
 * whose process stops goes back without counting.
 */
const deliver = Effect.fnUntraced(function* (handlers: Handlers, { attempt, jobId, kind, token }: ClaimedDelivery) {
  const store = yield* DeliveryStore
  const settle = (retryInMs: number | null, counts = true) =>
    store.settleDeliveries([{ jobId, token, retryInMs, counts }])
  let isConfirmed = false
  const work = Effect.gen(function* () {
    const handler = handlers.get(kind)
    const [job] = yield* (yield* JobDirectory).readJobs([jobId])
    if (job === undefined || handler === undefined) return yield* settle(job === undefined ? null : 0, false)
    const tell = (outcome: DeliveryOutcome) => tellBackground((meter) => meter.delivered(kind, outcome))
    const called = yield* Effect.exit(
      Effect.tap(call(handler, job, attempt), () => {
        isConfirmed = true
        return tell("confirmed")
      }),
    )
    if (Exit.isSuccess(called)) return yield* settle(null)
    const retryInMs = deliveryPauseMs(attempt, yield* Random.next)
    yield* tell(retryInMs === undefined ? "given_up" : "failed")
    const why = yield* described(Cause.die(Cause.squash(called.cause)))
    yield* retryInMs === undefined
      ? Effect.logError(`onFinished failed ${attempt} times for ${jobId}; it is not called again`, why)
      : Effect.logWarning(`onFinished failed for ${jobId}; trying again in ${Math.ceil(retryInMs / 1_000)} s`, why)
    return yield* settle(retryInMs ?? null)
  })
  // The turn before it keeps a process that is stopping from making calls that it aborts at once.
  return yield* Effect.onInterrupt(Effect.andThen(Effect.yieldNow, work), () =>
    Effect.ignore(settle(isConfirmed ? null : 0, isConfirmed)),
  )
})

/**
 * Starts calls in the scope of the caller, up to `concurrency` for each kind: a receiver that hangs must not hold up the other kinds. The
 * end of the scope ends the calls that it has started.
 */
export const makeDeliveries = Effect.gen(function* () {
  const handlers = yield* FinishHandlers
  const turn = yield* Semaphore.make(1)
  const ended = Latch.makeUnsafe(false)
  const hasRoom = Latch.makeUnsafe(false)
  const running = new Map([...handlers.keys()].map((kind) => [kind, 0]))
  const roomOf = (kind: string) => concurrency - (running.get(kind) ?? 0)
  const areRunning = () => [...running.values()].some((count) => count > 0)
  let wasActive = false
  const start = (delivery: ClaimedDelivery) => {
    const { kind } = delivery
    wasActive = true
    running.set(kind, (running.get(kind) ?? 0) + 1)
    const isEnded = Effect.sync(() => {
      const wasFull = roomOf(kind) === 0
      running.set(kind, (running.get(kind) ?? 0) - 1)
      // Last, because opening a latch runs the waiting loop at once, which must find the room.
      ended.openUnsafe()
      if (wasFull) hasRoom.openUnsafe()
    })
    return deliver(handlers, delivery).pipe(
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("a delivery was not confirmed", cause),
      ),
      Effect.ensuring(isEnded),
      // At once: what is interrupted before it has started does not give back its delivery.
      Effect.forkScoped({ startImmediately: true }),
    )
  }
  /** Starts deliveries that are due. Returns their number; 0 also if no kind has room. */
  const startDue = Effect.gen(function* () {
    ended.closeUnsafe()
    hasRoom.closeUnsafe()
    const kinds = [...handlers.keys()].filter((kind) => roomOf(kind) > 0)
    // All that are claimed may be of one kind.
    const claimed = kinds.length === 0 ? [] : yield* claim(kinds, Math.min(...kinds.map(roomOf)))
    for (const delivery of claimed) yield* start(delivery)
    return claimed.length
  })
  return {
    // A claim whose answer nobody takes would hold back its deliveries until their leases end.
    startDue: turn.withPermit(Effect.uninterruptible(startDue)),
    /** Returns whether a call has not ended. */
    areRunning,
    /** Returns whether a call ran at any time since this was last asked. */
    takeActivity: () => {
      const was = wasActive
      wasActive = areRunning()
      return was
    },
    /** Waits until a call has ended since the last `startDue`. */
    ended: ended.await,
    /** The same for a call of a kind that had no room. */
    hasRoom: hasRoom.await,
  }
})

export type Deliveries = Effect.Success<typeof makeDeliveries>

/** Makes all deliveries that are due, and returns once none is. */
export const deliverFinished = Effect.gen(function* () {
  const { areRunning, ended, startDue } = yield* makeDeliveries
  while (true) {
    if ((yield* startDue) > 0) continue
    if (!areRunning()) return
    yield* ended
  }
}).pipe(Effect.scoped)

/** Makes deliveries indefinitely. Returns immediately if no kind has a handler. */
export const runDeliveries: Effect.Effect<void, never, DeliveryStore | JobDirectory | JobEvents | Scope.Scope> =
  Effect.gen(function* () {
    const handlers = yield* FinishHandlers
    if (handlers.size === 0) return
    yield* tellBackground((meter) => meter.delivers(handlers.keys()))
    const events = yield* JobEvents
    const due = Latch.makeUnsafe(false)
    const listening = Effect.sync(() =>
      events.listen((event) => {
        if ((event.type === "completed" || event.type === "failed") && handlers.has(event.kind)) due.openUnsafe()
      }),
    )
    yield* Effect.acquireRelease(listening, (end) => Effect.sync(end))
    const outage = makeOutageLog("looking for finished jobs")
    const { hasRoom, startDue } = yield* makeDeliveries
    const startOrLog = Effect.tap(startDue, () => outage.worked).pipe(
      Effect.catchCause((cause) => Effect.as(outage.failed(cause), 0)),
    )
    while (true) {
      due.closeUnsafe()
      if ((yield* startOrLog) === 0) yield* Effect.raceAll([Effect.sleep(pauseMs), due.await, hasRoom])
    }
  })
