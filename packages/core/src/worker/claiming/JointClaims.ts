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
import type { IdleWorker } from "../../engine/creation.ts"
import { GroupCommit } from "../../engine/GroupCommit.ts"
import type { Claim, ClaimRequest, ClaimResult, NewJob } from "../../ports/index.ts"
import { acceptClaims, claimRequest } from "./claimInto.ts"
import { isTight } from "./Room.ts"
import type { Slots } from "./Slots.ts"

/** Starts attempts at claimed jobs. `askedAtMs` is when they were asked for, in milliseconds of the monotonic clock. */
type Start = (claims: ReadonlyArray<Claim>, askedAtMs: number) => Effect.Effect<unknown>

type Needs = Effect.Services<ReturnType<typeof claimRequest>> | Effect.Services<ReturnType<typeof acceptClaims>>

/** A joint claim that the store has not answered, or whose jobs are not started. */
interface PendingClaim {
  readonly request: ClaimRequest
  readonly askedAtMs: number
  readonly ended: Deferred.Deferred<void>
}

/**
 * Lets the creations of this process claim for a worker while it rests, in the same transaction, so that a created job starts
 * without a wake-up and a second commit. Such a claim is an ordinary claim of this worker. If its answer is lost, the leases end.
 * `nextClaimBy` returns when the worker's rest ends, in milliseconds of the monotonic clock.
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
      Effect.sync(() => grouped.claimFor(joint.claimWith)),
      (endOffer) => Effect.andThen(Effect.sync(endOffer), joint.stopped),
    )
  return joint
})

class JointClaims {
  readonly #slots: Slots
  readonly #start: Start
  readonly #nextClaimBy: () => number | undefined
  readonly #leaseDurationMs: number
  readonly #clock: Clock.Clock
  readonly #fork: <A>(effect: Effect.Effect<A, unknown, Needs>) => Fiber.Fiber<A, unknown>
  readonly #hasMore = Latch.makeUnsafe(false)
  #isResting = false
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

  /** Runs the worker's rest. It ends early when a joint claim shows that there is more to claim before its end. */
  whileResting(rest: Effect.Effect<void>): Effect.Effect<void> {
    const offered = Effect.suspend(() => {
      this.#hasMore.closeUnsafe()
      this.#isResting = true
      return Effect.raceFirst(rest, this.#hasMore.await)
    })
    return Effect.ensuring(
      offered,
      Effect.sync(() => {
        this.#isResting = false
      }),
    )
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

  /** Returns the claim to make with the creation of these jobs, if the worker rests and can run one of them now. */
  readonly claimWith: IdleWorker = (jobs) => {
    const isFree = this.#isResting && this.#pending === undefined && this.#slots.lapsed.size === 0
    if (!isFree || this.#slots.isolation.reservedMs(this.#now()) > 0) return undefined
    const request = this.#requestNow()
    if (request === undefined || !jobs.some((job) => canRun(request, job))) return undefined
    const claim: PendingClaim = { request, askedAtMs: this.#now(), ended: Deferred.makeUnsafe() }
    this.#pending = claim
    return {
      request: { ...request, limit: Math.min(request.limit, jobs.length) },
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

  /** The claim that this worker can make now. If the switchboard must be read first, creations do not wait for it. */
  #requestNow(): ClaimRequest | undefined {
    if (this.#reading !== undefined) return undefined
    const fiber = this.#fork(claimRequest(this.#slots, this.#slots.room()))
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
        // The callers of the creation continue first.
        yield* Effect.yieldNow
        const { claims, nextInMs } = yield* acceptClaims(this.#slots, claim.request, claimed)
        yield* this.#start(claims, claim.askedAtMs)
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

const canRun = ({ runnable }: ClaimRequest, job: NewJob): boolean =>
  job.delayMs <= 0 &&
  runnable.some(
    ({ kind, kindVersion, mode }) => kind === job.kind && kindVersion === job.kindVersion && mode === job.mode,
  )
