import { sql } from "kysely"
import * as Effect from "effect/Effect"
import {
  type AttemptRecord,
  type ErrorCode,
  failedOutput,
  isRepeatedEnd,
  type JobId,
  type StoreUnavailable,
  withinReservation,
} from "@kiln/core/domain"
import type { ClaimRef, Completion, Failure, FencedOutcome } from "@kiln/core/ports"
import type { Database } from "../connection/Database.ts"
import { briefLockTimeoutMs, type Session } from "../connection/Session.ts"
import { arrayText, type Given, query, statement } from "../Statement.ts"
import { readReservations } from "../spending.ts"
import { finishedLock } from "../wakeUp/Listener.ts"
import { finishedStates } from "./lockJobs.ts"

/** The end of a claim: the job is done, or it failed with a code. */
export interface End extends ClaimRef {
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
export type EndedClaims = {
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
const ending = (call: typeof endCall) => (given: Given<EndedClaims>) =>
  query.selectNoFrom([
    call(given).as("ended"),
    sql<boolean>`pg_try_advisory_xact_lock(${sql.raw(finishedLock)})`.as("unheard"),
  ])

export const endFree = ending(endCall)
export const endCharged = ending(endCallWithinReservations)
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
export const sortedEnds = (ends: ReadonlyArray<End>): ReadonlyArray<End> =>
  ends.toSorted((a, b) => (a.jobId < b.jobId ? -1 : a.jobId > b.jobId ? 1 : 0))

export const endedClaims = (session: Session, ends: ReadonlyArray<End>): EndedClaims => ({
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

export interface EndAnswer {
  readonly ended: Ended
  readonly unheard: boolean
}

/**
 * Tells of the claims that ended. Only items whose claim was not held are looked up: the same end may have been written before, by a
 * call whose answer was lost or earlier in the batch.
 */
export const outcomesOf = (
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
  return Effect.map(repeated(db, operation, missed), (repeats) => {
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
const repeated = (db: Database, operation: string, ends: ReadonlyArray<End>) =>
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
export const isPriced = ({ charge }: Completion): boolean => charge !== null && charge.amount !== "0"

export const doneOf = ({ charge, files, jobId, output, token, warningCode }: Completion): End => ({
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
export const completeAlone = (db: Database, items: ReadonlyArray<Completion>, tell: AnnounceFinished) => {
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
