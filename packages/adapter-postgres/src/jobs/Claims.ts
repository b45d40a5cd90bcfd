import * as Effect from "effect/Effect"
import type { JobId, StoreUnavailable } from "@kiln/core/domain"
import type { ClaimRequest, ClaimResult } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { isCorrupt } from "../postgresErrors.ts"
import { claimAtOnce, type ClaimedAtOnce } from "./claimAtOnce.ts"
import { type Claimed, claimJobs, failHeld, failUnreadable, openClaim, UnreadableJob } from "./claimJobs.ts"
import type { LanePositions, LaneUpdate } from "./LanePositions.ts"
import { lookForWork, saveLanes, settleAfter } from "./nextClaimable.ts"

const operation = "JobStore.claimJobs"

/** The claims of one process, with the positions of lanes that it has not saved. */
export class Claims {
  readonly positions: LanePositions
  readonly #db: Database
  /** Whether the last claim by the rules left work behind. */
  #hasMore = false

  constructor(db: Database, positions: LanePositions) {
    this.#db = db
    this.positions = positions
  }

  /** Claims in one statement where that can decide, which is all that an idle worker costs, and otherwise by the rules. */
  claim(request: ClaimRequest): Effect.Effect<ClaimResult, StoreUnavailable> {
    return Effect.flatMap(claimAtOnce(this.#db, this.positions, request), (claimed) =>
      claimed === undefined ? this.#claimByRules(request) : this.finish(request, claimed),
    ).pipe(Effect.uninterruptible)
  }

  /**
   * Records a claim in one statement and fails jobs that cannot be read. The positions of lanes are saved while the jobs begin,
   * unless they decide when to claim again: lanes that have been empty for long may be getting jobs right now.
   */
  finish(request: ClaimRequest, claimed: ClaimedAtOnce): Effect.Effect<ClaimResult, StoreUnavailable> {
    const { abandoned, claims, exhausted, nextInMs, unreadable, visited } = claimed
    return Effect.gen({ self: this }, function* () {
      this.positions.found(claims.length)
      if (unreadable.length > 0) yield* this.#failUnreadable(unreadable)
      if (visited.length === 0 && nextInMs === undefined) return { claims, abandoned, nextInMs }
      const due = this.positions.claimed(claimed, performance.now())
      if (claims.length === 0 || this.positions.savesAtOnce || due.settle.some((id) => exhausted.has(id)))
        return { claims, abandoned, nextInMs: yield* this.#settle(request, claimed, due) }
      if (due.served.length + due.settle.length > 0)
        yield* Effect.forkDetach(Effect.ignore(this.#db.read(operation, (session) => saveLanes(session, due))))
      return { claims, abandoned, nextInMs: earlier(nextInMs, due.againInMs) }
    })
  }

  /** If this fails, the leases of these jobs end, and the next claim finds them again. */
  #failUnreadable(jobs: ClaimedAtOnce["unreadable"]) {
    return this.#db
      .write(operation, (tx) => failHeld(tx, jobs))
      .pipe(Effect.andThen(Effect.forEach(jobs, ({ jobId }) => logUnreadable(jobId), { discard: true })), Effect.ignore)
  }

  #claimByRules(request: ClaimRequest): Effect.Effect<ClaimResult, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      if (!this.#hasMore) {
        const seen = yield* this.#db.read(operation, (session) => lookForWork(session, request.runnable))
        if (!seen.now) return { claims: [], abandoned: [], nextInMs: seen.nextInMs }
      }
      this.#hasMore = false
      const claimed = yield* this.#claimReadable(request)
      const { abandoned, claims } = claimed
      const nextInMs = yield* this.#settle(request, claimed, this.positions.claimed(claimed, performance.now()))
      this.#hasMore = claims.length > 0 && nextInMs === 0
      return { claims, abandoned, nextInMs }
    })
  }

  /**
   * Claims jobs and fails those that cannot be read. If a page is damaged and its job is unknown, jobs are claimed one by one
   * until it is found.
   */
  #claimReadable(request: ClaimRequest): Effect.Effect<Claimed, StoreUnavailable> {
    return this.#db
      .writeAfter(
        operation,
        (session) => openClaim(session, request, this.positions),
        (tx, opened) => claimJobs(tx, request, opened),
      )
      .pipe(
        Effect.catchTag("StoreUnavailable", (error) =>
          isCorrupt(error.cause) && request.limit > 1
            ? this.#claimReadable({ ...request, limit: 1 })
            : Effect.fail(error),
        ),
        Effect.catchDefect((defect) =>
          defect instanceof UnreadableJob
            ? this.#db
                .write(operation, (tx) => failUnreadable(tx, defect.jobId))
                .pipe(Effect.andThen(logUnreadable(defect.jobId)), Effect.andThen(this.#claimReadable(request)))
            : Effect.die(defect),
        ),
      )
  }

  /** Saves what is due about lanes and returns when to claim again. Only the order of turns depends on it, so a claim stands if it fails. */
  #settle(
    { runnable }: ClaimRequest,
    claimed: Claimed,
    due: LaneUpdate,
  ): Effect.Effect<number | undefined, StoreUnavailable> {
    return Effect.catchTag(
      this.#db.read(operation, (session) => settleAfter(session, runnable, claimed, due)),
      "StoreUnavailable",
      (error) => (claimed.claims.length > 0 ? Effect.succeed(0) : Effect.fail(error)),
    )
  }
}

/** The job fails like any other, so only this log tells an operator about the damage. */
const logUnreadable = (jobId: JobId) =>
  Effect.logError("a job could not be read and has failed: its record is damaged", jobId)

const earlier = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
