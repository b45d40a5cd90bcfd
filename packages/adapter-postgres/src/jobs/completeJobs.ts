import * as Effect from "effect/Effect"
import {
  applyEvent,
  type JobId,
  type JsonObject,
  refusedJob,
  type StoreUnavailable,
  withinReservation,
} from "@kiln/core/domain"
import type { ClaimRequest, CompletedAndClaimed, Completion, FencedOutcome, NewJob } from "@kiln/core/ports"
import { sql } from "kysely"
import * as Option from "effect/Option"
import type { Database } from "../connection/Database.ts"
import { readReservations } from "../spending.ts"
import type { Transaction } from "../connection/Session.ts"
import { type Given, query, statement } from "../Statement.ts"
import { createJobs, judgeJobs, readBatch } from "./createJobs.ts"
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
import { stateOf } from "./jobRow.ts"
import { lockedJobs } from "./lockJobs.ts"
import { finishJobs } from "./writeStates.ts"
import { type Claims, nextClaim } from "./Claims.ts"
import { type AnswerRow, type Asked, askedOf, takeCall, type Taken, takenOf, usually } from "./takeJobs.ts"

const endStatement = statement(endFree)

interface Written {
  readonly answer: EndAnswer
  /** Jobs that were created as failed. */
  readonly failed: ReadonlyArray<JobId>
}

/**
 * Completes jobs and creates their follow-ups, in one transaction. Ends first: what the ended jobs have reserved under a spend cap is free
 * for their follow-ups.
 */
const completeWithFollowUps = (
  db: Database,
  items: ReadonlyArray<Completion>,
  tell: AnnounceFinished,
): Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable> => {
  const operation = "JobStore.completeJobs"
  const priced = items.filter(isPriced)
  const written = db.writeBatch(
    operation,
    items.length,
    (session) => readReservations(session, priced),
    async (tx, reservations): Promise<Written> => {
      // Reservations do not change until their job ends.
      const ends = sortedEnds(items.map((item) => doneOf(within(item, reservations))))
      const answer = await tx.get(endStatement, endedClaims(tx, ends))
      if (answer === undefined) throw new TypeError("end_jobs returned no row")
      const places = answer.ended === null ? undefined : new Set<unknown>(answer.ended)
      const ended = new Set(ends.filter((_, index) => places?.has(index + 1) ?? true).map(claimName))
      const followUps = items.flatMap((item) => (ended.delete(claimName(item)) ? (item.followUps ?? []) : []))
      return { answer, failed: followUps.length === 0 ? [] : await createFollowUps(tx, followUps) }
    },
  )
  return Effect.flatMap(written, ({ answer, failed }) => {
    tell(failed)
    return outcomesOf(db, operation, items.map(doneOf), answer, tell)
  })
}

/** The call may also have a completion of an earlier claim of the same job, which ends nothing. */
const claimName = ({ jobId, token }: Pick<Completion, "jobId" | "token">): string => `${jobId} ${token}`

const within = (item: Completion, reservations: Awaited<ReturnType<typeof readReservations>>): Completion =>
  item.charge === null ? item : { ...item, charge: withinReservation(item.charge, reservations.get(item.jobId)) }

/** Creates jobs, in their order. Those that would be refused are created as failed; their ids are returned. */
const createFollowUps = async (tx: Transaction, items: ReadonlyArray<NewJob>): Promise<ReadonlyArray<JobId>> => {
  const read = await readBatch(tx, items)
  const { outcomes } = judgeJobs(tx.now, items, read)
  const refused = items.map((item, index) => {
    const outcome = outcomes[index]
    return outcome && refusedJob(item, outcome)
  })
  // Judged once more, with jobs in the place of the refused ones that nothing refuses.
  await createJobs(
    tx,
    items.map((item, index) => refused[index]?.item ?? item),
    read,
  )
  const outputs = new Map<JobId, JsonObject>(refused.flatMap((one) => (one ? [[one.item.id, one.output]] : [])))
  if (outputs.size === 0) return []
  const jobs = await lockedJobs(
    tx,
    [...outputs.keys()].map((jobId) => ({ jobId })),
  )
  await finishJobs(
    tx,
    jobs.map((from) => {
      const to = applyEvent(stateOf(from), { event: "refused" }, tx.now)
      if (to === undefined) throw new TypeError(`${from.id} cannot be created as failed`)
      const output = JSON.stringify(outputs.get(from.id))
      return { from, to, output, warningCode: null, charge: null }
    }),
  )
  return jobs.map(({ id }) => id)
}

/** Completes jobs. Most have no follow-ups, and end in one statement. */
export const completeJobs = (
  db: Database,
  items: ReadonlyArray<Completion>,
  tell: AnnounceFinished,
): Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable> =>
  items.some(({ followUps }) => followUps !== undefined)
    ? completeWithFollowUps(db, items, tell)
    : completeAlone(db, items, tell)

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
  const operation = "JobStore.completeAndClaimJobs"
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
