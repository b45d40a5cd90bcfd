import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type { JobId, StoreUnavailable } from "@kiln/core/domain"
import type { Claim, ClaimRequest, ClaimResult } from "@kiln/core/ports"
import type { Database } from "../connection/Database.ts"
import { isCorrupt } from "../connection/postgresErrors.ts"
import type { LanePositions, LaneUpdate } from "./LanePositions.ts"
import { saveLanes, settleAfter } from "./nextClaimable.ts"
import { afterNothing, type Manner, type Taken, takeJobs, usually } from "./takeJobs.ts"
import { failAbandoned, failHeld, type Held, readHeld } from "./unreadableJobs.ts"

const operation = "JobStore.claimJobs"

/** A number for a new claim. */
export const nextClaim = Random.nextIntBetween(1, Number.MAX_SAFE_INTEGER)

/** The claims of one process, with the positions of lanes that it has not saved. */
export class Claims {
  readonly positions: LanePositions
  readonly #db: Database

  constructor(db: Database, positions: LanePositions) {
    this.#db = db
    this.positions = positions
  }

  /** Claims in one statement, which also says when to claim next. */
  claim(request: ClaimRequest): Effect.Effect<ClaimResult, StoreUnavailable> {
    return this.#take(request, usually).pipe(
      Effect.catchIf(
        ({ cause }) => isCorrupt(cause),
        () => Effect.undefined,
      ),
      Effect.flatMap((taken) => (taken === undefined ? this.#claimUnread(request) : this.finish(request, taken))),
      Effect.uninterruptible,
    )
  }

  /** Goes on behind lanes that are empty: transactions may be adding to them for minutes. */
  #take(request: ClaimRequest, manner: Manner): Effect.Effect<Taken, StoreUnavailable> {
    return Effect.flatMap(nextClaim, (claim) =>
      this.#db.writeAtOnce(operation, 1, (session, repeated) =>
        takeJobs(session, this.positions, request, { claim, repeated }, manner),
      ),
    ).pipe(
      Effect.flatMap((taken) => {
        const { claims, isPage, unreadable, visited } = taken
        return claims.length + unreadable.length === 0 && isPage && visited.length > 0
          ? Effect.map(this.#take(request, { ...manner, skipped: [...manner.skipped, ...visited] }), (found) =>
              afterNothing(taken, found),
            )
          : Effect.succeed(taken)
      }),
    )
  }

  /**
   * Records a claim and fails jobs that cannot be read or have lost too many workers. The positions of lanes are saved while the jobs
   * begin, unless they decide when to claim again: lanes that have been empty for long may be getting jobs right now.
   */
  finish(request: ClaimRequest, taken: Taken): Effect.Effect<ClaimResult, StoreUnavailable> {
    const { claims, exhausted, nextInMs, unreadable, visited } = taken
    return Effect.gen({ self: this }, function* () {
      this.positions.found(claims.length)
      if (unreadable.length > 0) yield* this.#failUnreadable(unreadable)
      const abandoned = taken.abandoned.length === 0 ? [] : yield* this.#failAbandoned(request, taken)
      if (visited.length === 0 && nextInMs === undefined) return { claims, abandoned, nextInMs }
      const due = this.positions.claimed(taken, performance.now())
      if (claims.length === 0 || this.positions.savesAtOnce || due.settle.some((id) => exhausted.has(id)))
        return { claims, abandoned, nextInMs: yield* this.#settle(request, taken, due) }
      if (due.served.length + due.settle.length > 0)
        yield* Effect.forkDetach(Effect.ignore(this.#db.read(operation, (session) => saveLanes(session, due))))
      return { claims, abandoned, nextInMs: earlier(nextInMs, due.againInMs) }
    })
  }

  /** If this fails, the leases of these jobs end, and the next claim finds them again. */
  #failUnreadable(jobs: ReadonlyArray<Held>) {
    return this.#db
      .write(operation, (tx) => failHeld(tx, jobs))
      .pipe(Effect.andThen(Effect.forEach(jobs, ({ jobId }) => logUnreadable(jobId), { discard: true })), Effect.ignore)
  }

  /** If this fails, the next claim finds these jobs again. */
  #failAbandoned({ maxLostWorkers }: ClaimRequest, { abandoned, claims }: Taken) {
    return Effect.catchTag(
      this.#db.write(operation, (tx) => failAbandoned(tx, abandoned, maxLostWorkers)),
      "StoreUnavailable",
      (error) => (claims.length > 0 ? Effect.succeed<ReadonlyArray<JobId>>([]) : Effect.fail(error)),
    )
  }

  /**
   * Claims one job without reading it and then reads it, because a claim that meets a damaged page does not say which job is on it.
   * A job that cannot be read fails, and the next one is claimed.
   */
  #claimUnread(request: ClaimRequest): Effect.Effect<ClaimResult, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      const taken = yield* this.#take({ ...request, limit: Math.min(1, request.limit) }, { ...usually, reads: false })
      const [held] = taken.unreadable
      if (held === undefined) return yield* this.finish(request, taken)
      const claim = yield* this.#read(held)
      if (claim !== undefined) return yield* this.finish(request, { ...taken, unreadable: [], claims: [claim] })
      const { abandoned } = yield* this.finish(request, taken)
      const next = yield* this.claim(request)
      return { ...next, abandoned: [...abandoned, ...next.abandoned] }
    })
  }

  #read(held: Held): Effect.Effect<Claim | undefined, StoreUnavailable> {
    return Effect.catchIf(
      this.#db.write(operation, (tx) => readHeld(tx, held)),
      ({ cause }) => isCorrupt(cause),
      () => Effect.undefined,
    )
  }

  /** Saves what is due about lanes and returns when to claim again. Only the order of turns depends on it, so a claim stands if it fails. */
  #settle(
    { runnable }: ClaimRequest,
    taken: Taken,
    due: LaneUpdate,
  ): Effect.Effect<number | undefined, StoreUnavailable> {
    return Effect.catchTag(
      this.#db.read(operation, (session) => settleAfter(session, runnable, taken, due)),
      "StoreUnavailable",
      (error) => (taken.claims.length > 0 ? Effect.succeed(0) : Effect.fail(error)),
    )
  }
}

/** The job fails like any other, so only this log tells an operator about the damage. */
const logUnreadable = (jobId: JobId) =>
  Effect.logError("a job could not be read and has failed: its record is damaged", jobId)

const earlier = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
