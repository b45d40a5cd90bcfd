import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sql } from "kysely"
import type { AttemptRecord, ErrorCode, JobId, JsonObject, StoreUnavailable } from "@kiln/core/domain"
import { applyEvent, failedOutput, isRepeatedEnd, refusedJob, withinReservation } from "@kiln/core/rules"
import type {
  ClaimRef,
  ClaimRequest,
  CompletedAndClaimed,
  Completion,
  Failure,
  FencedOutcome,
  NewJob,
} from "@kiln/core/ports"
import { arrayText, type Given, query, statement } from "../Statement.ts"
import type { Database } from "../connection/Database.ts"
import { briefLockTimeoutMs, type Session, type Transaction } from "../connection/Session.ts"
import { readReservations } from "../spending.ts"
import { finishedLock } from "../wakeUp/Listener.ts"
import { type Claims, nextClaim } from "./Claims.ts"
import { createJobs, judgeJobs, readBatch } from "./createJobs.ts"
import { stateOf } from "./jobRow.ts"
import { finishedStates, finishJobs, lockedJobs, refsTo } from "./moveJobs.ts"
import { type AnswerRow, type Asked, askedOf, takeCall, type Taken, takenOf, usually } from "./takeJobs.ts"

/** The end of a claim: the job is done, or it failed with a code. */
interface End extends ClaimRef {
  readonly errorCode: ErrorCode | null
  readonly output: string | null
  readonly warningCode: string | null
  readonly charge: string | null
  readonly files: Completion["files"]
  readonly record: AttemptRecord | undefined
}

/** Called with jobs that ended here. Never waits. */
export type AnnounceFinished = (jobs: ReadonlyArray<JobId>) => void

/** The parameters of `end_jobs`. Arrays are given as their text. */
type EndedClaims = {
  ids: string
  tokens: string
  errorCodes: string | null
  outputs: string | null
  warningCodes: string | null
  charges: string | null
  files: string | null
  failures: string | null
  brief: string
}

/** Null if all claims have ended, otherwise the places of those that did; `above` if a charge is above what its job has reserved. */
export type Ended = ReadonlyArray<number> | "above" | null

const endCall = (given: Given<EndedClaims>) =>
  sql<Ended>`"kiln".end_jobs(${given.ids}::text[], ${given.tokens}::bigint[], ${given.errorCodes}::text[], ${given.outputs}::text[],
    ${given.warningCodes}::text[], ${given.charges}::text[], ${given.files}::json, ${given.failures}::json, ${given.brief}::text)`

/** The same for jobs with charges. Ends none if a charge is above what its job has reserved. */
const endCallWithinReservations = (given: Given<EndedClaims>) =>
  sql<Ended>`CASE WHEN EXISTS (
      SELECT FROM "kiln".spending JOIN unnest(${given.ids}::text[], ${given.charges}::text[]) AS item(id, charge) ON spending.entry = item.id
      WHERE spending.charged_at IS NULL AND spending.currency = item.charge::json ->> 'currency'
        AND spending.amount::numeric < (item.charge::json ->> 'amount')::numeric
    ) THEN '"above"'::json ELSE ${endCall(given)} END`

/**
 * Calls `end_jobs`, which is defined in a migration. `unheard`: no process listens to the ends of jobs, and one that begins to waits
 * until this transaction has ended.
 */
const endingBy = (call: typeof endCall) => (given: Given<EndedClaims>) =>
  query.selectNoFrom([
    call(given).as("ended"),
    sql<boolean>`pg_try_advisory_xact_lock(${sql.raw(finishedLock)})`.as("unheard"),
  ])

const endFree = endingBy(endCall)
const endCharged = endingBy(endCallWithinReservations)
const endFreeStatement = statement(endFree)
const endChargedStatement = statement(endCharged)

/** The text of an array; `null` if all its values are. */
const someText = (ends: ReadonlyArray<End>, field: "errorCode" | "output" | "warningCode" | "charge") =>
  ends.some((end) => end[field] !== null) ? arrayText(ends, field) : null

const filesOf = (ends: ReadonlyArray<End>): string | null => {
  if (!ends.some(({ files }) => files.length > 0)) return null
  return JSON.stringify(ends.flatMap(({ files }, index) => files.map((file) => ({ ...file, place: index + 1 }))))
}

const failuresOf = (ends: ReadonlyArray<End>): string | null => {
  if (!ends.some(({ record }) => record !== undefined)) return null
  return JSON.stringify(
    ends.flatMap(({ record }, index) => (record === undefined ? [] : [{ ...record, place: index + 1 }])),
  )
}

/** Sorted by id, so that two calls cannot deadlock. */
const sortedEnds = (ends: ReadonlyArray<End>): ReadonlyArray<End> =>
  ends.toSorted((a, b) => (a.jobId < b.jobId ? -1 : a.jobId > b.jobId ? 1 : 0))

const endedClaims = (session: Session, ends: ReadonlyArray<End>): EndedClaims => ({
  ids: arrayText(ends, "jobId"),
  tokens: arrayText(ends, "token"),
  errorCodes: someText(ends, "errorCode"),
  outputs: someText(ends, "output"),
  warningCodes: someText(ends, "warningCode"),
  charges: someText(ends, "charge"),
  files: filesOf(ends),
  failures: failuresOf(ends),
  brief: String(briefLockTimeoutMs(session)),
})

interface EndAnswer {
  readonly ended: Ended
  readonly unheard: boolean
}

/**
 * Tells of the claims that ended. Only items whose claim was not held are looked up: the same end may have been written before, by a
 * call whose answer was lost or earlier in the batch.
 */
const outcomesOf = (
  db: Database,
  operation: string,
  ends: ReadonlyArray<End>,
  { ended, unheard }: EndAnswer,
  tell: AnnounceFinished,
): Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable> => {
  if (ended === null) {
    if (!unheard) tell(ends.map(({ jobId }) => jobId))
    return Effect.succeed(ends.map(() => "Written" as const))
  }
  if (ended === "above") return Effect.die(new TypeError("end_jobs compared no charges"))
  const places = new Set(ended)
  const written = new Set(sortedEnds(ends).filter((_, index) => places.has(index + 1)))
  const missed = ends.filter((end) => !written.has(end))
  return Effect.map(repeatedEnds(db, operation, missed), (repeats) => {
    const isWritten = (end: End): boolean => written.has(end) || repeats.has(end)
    if (!unheard) tell(ends.filter(isWritten).map(({ jobId }) => jobId))
    return ends.map((end) => (isWritten(end) ? "Written" : "LeaseLost"))
  })
}

/** Ends claims, each with its fence, in one statement; with `bounded`, only if no charge is above a reservation, and otherwise as that does. */
const endJobs = (
  db: Database,
  operation: string,
  ends: ReadonlyArray<End>,
  tell: AnnounceFinished,
  bounded?: Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>,
): Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable> => {
  if (ends.length === 0) return Effect.succeed([])
  const sorted = sortedEnds(ends)
  const answered = db.writeAtOnce(operation, ends.length, (session) =>
    session.get(bounded === undefined ? endFreeStatement : endChargedStatement, endedClaims(session, sorted)),
  )
  return Effect.flatMap(answered, (answer) => {
    if (answer === undefined) throw new TypeError("end_jobs returned no row")
    return answer.ended === "above" && bounded !== undefined ? bounded : outcomesOf(db, operation, ends, answer, tell)
  })
}

/** Returns those of the ends that were already written. Erased data is not looked at: the first call wrote everything. */
const repeatedEnds = (db: Database, operation: string, ends: ReadonlyArray<End>) =>
  Effect.map(
    db.read(operation, (session) =>
      session.batch(
        finishedStates,
        ends.map(({ jobId: id }) => ({ id })),
      ),
    ),
    (finished) => {
      const states = new Map(finished.map((job) => [job.id, { ...job, held: false }]))
      return new Set(
        ends.filter((end) => {
          const state = states.get(end.jobId)
          return state !== undefined && isRepeatedEnd(state, eventOf(end))
        }),
      )
    },
  )

const eventOf = ({ errorCode, token }: End) =>
  errorCode === null ? ({ event: "completed", token } as const) : ({ event: "failed", token, errorCode } as const)

/** Whether a completion may cost what its job has reserved. */
const isPriced = ({ charge }: Completion): boolean => charge !== null && charge.amount !== "0"

const doneOf = ({ charge, files, jobId, output, token, warningCode }: Completion): End => ({
  jobId,
  token,
  errorCode: null,
  output: JSON.stringify(output),
  warningCode,
  charge: charge === null ? null : JSON.stringify(charge),
  files,
  record: undefined,
})

const failedOf = ({ errorCode, jobId, message, record, token }: Failure): End => ({
  jobId,
  token,
  errorCode,
  output: message === undefined ? null : JSON.stringify(failedOutput(message)),
  warningCode: null,
  charge: null,
  files: [],
  record,
})

/**
 * Completes jobs without follow-ups, with their outputs, files and charges. Announces their ends if a process listens to them. Reservations are read if
 * a charge is above one: they do not change until their job ends.
 */
const completeAlone = (db: Database, items: ReadonlyArray<Completion>, tell: AnnounceFinished) => {
  const operation = "JobStore.completeJobs"
  const priced = items.filter(isPriced)
  if (priced.length === 0) return endJobs(db, operation, items.map(doneOf), tell)
  const reserved = db.read(operation, (session) => readReservations(session, priced))
  const bounded = Effect.flatMap(reserved, (reservations) => {
    const cut = items.map(({ charge, ...item }) => ({
      ...item,
      charge: charge === null ? null : withinReservation(charge, reservations.get(item.jobId)),
    }))
    return endJobs(db, operation, cut.map(doneOf), tell)
  })
  return endJobs(db, operation, items.map(doneOf), tell, bounded)
}

/** Fails jobs permanently, with an error code. Announces their ends as `completeJobs` does. */
export const failJobs = (db: Database, items: ReadonlyArray<Failure>, tell: AnnounceFinished) =>
  endJobs(db, "JobStore.failJobs", items.map(failedOf), tell)

const endStatement = statement(endFree)

interface Written {
  readonly answer: EndAnswer
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
  const jobs = await lockedJobs(tx, refsTo(outputs.keys()))
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
