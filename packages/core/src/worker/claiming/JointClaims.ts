import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { GroupCommit } from "../../engine/GroupCommit.ts"
import type { ClaimingWorker, JointClaim } from "../../engine/jointWrites.ts"
import type { WorkerRoom } from "../../domain/JobsInProgress.ts"
import type { Claim, ClaimRequest, ClaimResult, Completion, NewJob } from "../../ports/index.ts"
import { acceptClaims, claimRequest } from "./claimInto.ts"
import { isTight, roomWithout, type Slots } from "./Slots.ts"

/**
 * Maximum number of completions that claim in the same transaction. More of them share the costs of a commit anyway, and a claim for all
 * of them would have old and new jobs in memory at the same time.
 */
const mostJoint = 100

/** Starts attempts at claimed jobs. `askedAtMs` is when they were asked for, in milliseconds of the monotonic clock. */
type Start = (claims: ReadonlyArray<Claim>, askedAtMs: number) => Effect.Effect<unknown>

type Needs = Effect.Services<ReturnType<typeof claimRequest>> | Effect.Services<ReturnType<typeof acceptClaims>>

/** When there may be more to claim than a joint claim has found, whose attempts have begun. */
interface JointAnswer {
  readonly attempts: ReadonlyArray<never>
  readonly nextInMs: number | undefined
  /** Attempts that had left their slots. The store was not asked for jobs for the slots of others. */
  readonly left: number
}

/** A joint claim that the store has not answered, or whose jobs are not started. */
interface PendingClaim {
  readonly request: ClaimRequest
  readonly askedAtMs: number
  /** Attempts that have left their slots when the write is over, unless another one leaves meanwhile. */
  readonly left: number
  /**
   * Whether only an answer with as many jobs as were asked for tells the worker what is left: the request counts jobs as running with their
   * providers that end with the write.
   */
  readonly mustFill: boolean
  readonly ended: Deferred.Deferred<void>
}

/**
 * Lets writes of this process claim for a worker in the same transaction: creations while it rests, so that a created job starts
 * without a wake-up and a second commit, and completions while it waits for slots, so that these are filled again at once. Such
 * a claim is an ordinary claim of this worker. If its answer is lost, the leases end. `nextClaimBy` returns when the worker's rest ends, in milliseconds of the monotonic clock.
 */
export const makeJointClaims = Effect.fnUntraced(function* (
  slots: Slots,
  start: Start,
  nextClaimBy: () => number | undefined,
): Effect.fn.Return<JointClaims, never, Needs | Scope.Scope> {
  const { leaseDurationMs } = yield* EngineConfig
  const context = yield* Effect.context<Needs>()
  const clock = yield* Clock.Clock
  const joint = new JointClaims(slots, start, nextClaimBy, leaseDurationMs, clock, Effect.runForkWith(context))
  // Without shared calls, creations do not pass here.
  const grouped = Option.getOrUndefined(Context.getOption(context as Context.Context<never>, GroupCommit))
  if (grouped !== undefined)
    yield* Effect.acquireRelease(
      Effect.sync(() => grouped.claimFor(joint)),
      (endOffer) => Effect.andThen(Effect.sync(endOffer), joint.stopped),
    )
  return joint
})

class JointClaims implements ClaimingWorker {
  readonly #slots: Slots
  readonly #start: Start
  readonly #nextClaimBy: () => number | undefined
  readonly #leaseDurationMs: number
  readonly #clock: Clock.Clock
  readonly #fork: <A>(effect: Effect.Effect<A, unknown, Needs>) => Fiber.Fiber<A, unknown>
  readonly #hasMore = Latch.makeUnsafe(false)
  #isResting = false
  #waitsForSlots = false
  #hasNews = false
  #answer: JointAnswer | undefined
  #reading: Fiber.Fiber<ClaimRequest, unknown> | undefined
  #pending: PendingClaim | undefined

  constructor(
    slots: Slots,
    start: Start,
    nextClaimBy: () => number | undefined,
    leaseDurationMs: number,
    clock: Clock.Clock,
    fork: <A>(effect: Effect.Effect<A, unknown, Needs>) => Fiber.Fiber<A, unknown>,
  ) {
    this.#slots = slots
    this.#start = start
    this.#nextClaimBy = nextClaimBy
    this.#leaseDurationMs = leaseDurationMs
    this.#clock = clock
    this.#fork = fork
  }

  /**
   * Runs the worker's rest. It ends early when a joint claim shows that there is more to claim before its end, or with `freed`, for a worker
   * that has no slot left for some of its jobs. What else ends it may be news that no joint claim has seen.
   */
  whileResting(rest: Effect.Effect<void>, freed: Effect.Effect<void> | undefined): Effect.Effect<void> {
    const news = Effect.map(rest, () => {
      this.#hasNews = true
      this.#stopOffer()
    })
    return Effect.suspend(() => {
      this.#hasMore.closeUnsafe()
      this.#isResting = true
      const early = freed === undefined ? this.#hasMore.await : Effect.raceFirst(this.#hasMore.await, freed)
      return this.#waiting(Effect.raceFirst(news, early), freed !== undefined)
    })
  }

  /** Runs the wait of a worker that has no free slot. */
  whileFull(freed: Effect.Effect<void>): Effect.Effect<void> {
    return Effect.suspend(() => this.#waiting(freed, true))
  }

  /** A wait that ends early leaves the offer open until the worker takes the answer: a job that ends meanwhile claims its successor. */
  #waiting(wait: Effect.Effect<void>, forSlots: boolean): Effect.Effect<void> {
    this.#waitsForSlots = forSlots
    return Effect.onError(wait, () => Effect.sync(() => this.#stopOffer()))
  }

  #stopOffer(): void {
    this.#isResting = false
    this.#waitsForSlots = false
  }

  /**
   * Returns the answer to the last joint claim, unless there is more to claim now or something has happened that it does not cover.
   * From here on no write claims for the worker until it waits again.
   */
  takeAnswer(): JointAnswer | undefined {
    this.#stopOffer()
    const answer = this.#hasNews ? undefined : this.#answer
    this.#hasNews = false
    this.#answer = undefined
    return answer?.left === this.#slots.left() ? answer : undefined
  }

  /** Whether a joint claim is not answered yet, or its jobs are not started. */
  get isPending(): boolean {
    return this.#pending !== undefined
  }

  /** Waits until no joint claim is pending. One that takes longer than a lease is given up: its leases are over. */
  readonly settled: Effect.Effect<void> = Effect.suspend(() => {
    const claim = this.#pending
    if (claim === undefined) return Effect.void
    const givenUp = Effect.map(Effect.sleep(claim.askedAtMs + this.#leaseDurationMs - this.#now()), () =>
      this.#end(claim),
    )
    return Effect.raceFirst(Deferred.await(claim.ended), givenUp)
  })

  /** Waits as `settled` does, after the last joint claim. */
  readonly stopped: Effect.Effect<void> = Effect.suspend(() => {
    this.#reading?.interruptUnsafe()
    return this.settled
  })

  readonly claimWithCreation = (jobs: ReadonlyArray<NewJob>): JointClaim | undefined => {
    if (!this.#isResting || !this.#mayClaim) return undefined
    const request = this.#requestNow(this.#slots.room())
    if (request === undefined || !jobs.some((job) => canRun(request, job))) return undefined
    return this.#begin({ ...request, limit: Math.min(request.limit, jobs.length) }, this.#slots.left(), false)
  }

  readonly claimWithCompletion = (items: ReadonlyArray<Completion>): JointClaim | undefined => {
    if (!this.#waitsForSlots || !this.#mayClaim || items.length > mostJoint) return undefined
    // These jobs leave their slots before the claimed ones take them.
    const room = this.#slots.room()
    const after = roomWithout(this.#slots.occupied(), this.#slots.attempts, items)
    const request = this.#requestNow(after)
    // Jobs that end with this write still count as running with their providers, which may have no room for others.
    if (request === undefined || request.limit === 0 || request.runnable.length === 0) return undefined
    const left = this.#slots.left() + freeSlots(after) - freeSlots(room)
    return this.#begin({ ...request, limit: Math.min(request.limit, items.length) }, left, true)
  }

  get #mayClaim(): boolean {
    const { isolation, lapsed } = this.#slots
    return this.#pending === undefined && lapsed.size === 0 && isolation.reservedMs(this.#now()) <= 0
  }

  #begin(request: ClaimRequest, left: number, mustFill: boolean): JointClaim {
    const claim: PendingClaim = { request, askedAtMs: this.#now(), left, mustFill, ended: Deferred.makeUnsafe() }
    this.#pending = claim
    this.#answer = undefined
    return {
      request,
      end: (claimed) => {
        const isLate = this.#pending !== claim || this.#now() - claim.askedAtMs >= this.#leaseDurationMs
        if (claimed === undefined || isLate) return this.#end(claim)
        const accepted = Effect.catchCause(this.#accept(claim, claimed), (cause) =>
          Effect.logError("failed to start claimed jobs", cause),
        )
        this.#fork(accepted).addObserver(() => this.#end(claim))
      },
    }
  }

  /** The claim that this worker can make now. If the switchboard must be read first, writes do not wait for it. */
  #requestNow(room: WorkerRoom): ClaimRequest | undefined {
    if (this.#reading !== undefined) return undefined
    const fiber = this.#fork(claimRequest(this.#slots, room))
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return Exit.isSuccess(exit) ? exit.value : undefined
    this.#reading = fiber
    fiber.addObserver(() => {
      this.#reading = undefined
    })
    return undefined
  }

  /** Uninterruptible: a claimed job is started, or its worker would count as lost when this one stops. */
  #accept(claim: PendingClaim, claimed: ClaimResult) {
    return Effect.uninterruptible(
      Effect.gen({ self: this }, function* () {
        // The callers of the write continue first: completed jobs leave their slots.
        yield* Effect.yieldNow
        const { claims, nextInMs } = yield* acceptClaims(this.#slots, claim.request, claimed)
        yield* this.#start(claims, claim.askedAtMs)
        const isWhole = !claim.mustFill || claimed.claims.length === claim.request.limit
        const { left } = claim
        if (nextInMs !== 0 && isWhole && left === this.#slots.left()) this.#answer = { attempts: [], nextInMs, left }
        // The worker must ask for what is left, and no other claim may come before its own.
        else this.#stopOffer()
        const endsSooner = nextInMs !== undefined && this.#now() + nextInMs < (this.#nextClaimBy() ?? Infinity)
        if (endsSooner || isTight(this.#slots.room())) this.#hasMore.openUnsafe()
      }),
    )
  }

  #end(claim: PendingClaim): void {
    if (this.#pending === claim) this.#pending = undefined
    Deferred.doneUnsafe(claim.ended, Effect.void)
  }

  #now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }
}

const freeSlots = ({ free }: WorkerRoom): number => free.live + free.sandbox

const canRun = ({ runnable }: ClaimRequest, job: NewJob): boolean =>
  job.delayMs <= 0 &&
  runnable.some(
    ({ kind, kindVersion, mode }) => kind === job.kind && kindVersion === job.kindVersion && mode === job.mode,
  )
