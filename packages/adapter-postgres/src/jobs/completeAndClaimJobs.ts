import { sql } from "kysely"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { ClaimRequest, CompletedAndClaimed, Completion } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { type Given, query, statement } from "../Statement.ts"
import { type Claims, nextClaim } from "./Claims.ts"
import {
  type AnnounceFinished,
  completeAlone,
  doneOf,
  type EndAnswer,
  endCharged,
  endedClaims,
  type EndedClaims,
  endFree,
  isPriced,
  outcomesOf,
  sortedEnds,
} from "./endJobs.ts"
import { completeJobs } from "./completeJobs.ts"
import { type AnswerRow, type Asked, askedOf, type Taken, takeCall, takenOf, usually } from "./takeJobs.ts"

/**
 * Ends claims and then claims, in one transaction. The claim refers to the result of `end_jobs`, so it runs second and sees what that
 * wrote. Nothing is claimed if a charge is above a reservation, because then nothing has ended.
 */
const endingAndClaiming = (ending: typeof endFree) =>
  statement((given: Given<EndedClaims & Asked>) => {
    const most = sql<number>`CASE WHEN done.ended::text = '"above"' THEN 0 ELSE ${given.most}::bigint END`
    return query
      .selectFrom(ending(given).as("done"))
      .innerJoinLateral(takeCall(given, most), (join) => join.onTrue())
      .selectAll("claimed")
      .select(["done.ended", "done.unheard"])
      .$castTo<AnswerRow & EndAnswer>()
  })

const endFreeAndClaim = endingAndClaiming(endFree)
const endChargedAndClaim = endingAndClaiming(endCharged)

const operation = "JobStore.completeAndClaimJobs"

const isAny = ({ abandoned, claims, unreadable }: Taken): boolean =>
  claims.length + unreadable.length + abandoned.length > 0

/** Completes jobs and claims, in one statement. Nobody waits with it for claims of others: the worker can claim later. */
export const completeAndClaimJobs = (
  db: Database,
  claims: Claims,
  items: ReadonlyArray<Completion>,
  request: ClaimRequest,
  tell: AnnounceFinished,
): Effect.Effect<CompletedAndClaimed, StoreUnavailable> => {
  if (items.length === 0) return Effect.succeed({ completed: [], claimed: undefined })
  if (items.some(({ followUps }) => followUps !== undefined))
    return Effect.map(completeJobs(db, items, tell), (completed) => ({ completed, claimed: undefined }))
  const ends = items.map(doneOf)
  const sorted = sortedEnds(ends)
  return Effect.gen(function* () {
    const claim = yield* nextClaim
    const { answer, taken } = yield* db.writeAtOnce(operation, items.length, async (session, repeated) => {
      const asked = askedOf(session, request, claims.positions, { ...usually, waits: false })
      const rows = await session.all(items.some(isPriced) ? endChargedAndClaim : endFreeAndClaim, {
        ...endedClaims(session, sorted),
        ...asked,
        claim,
        repeated,
      })
      return { answer: rows[0], taken: takenOf(request, rows) }
    })
    if (answer === undefined) throw new TypeError("end_jobs returned no row")
    if (answer.ended === "above") return { completed: yield* completeAlone(db, items, tell), claimed: undefined }
    const claimed = taken !== undefined && isAny(taken) ? yield* Effect.option(claims.finish(request, taken)) : none
    return { completed: yield* outcomesOf(db, operation, ends, answer, tell), claimed: Option.getOrUndefined(claimed) }
  }).pipe(Effect.uninterruptible)
}

const none = Option.none()
