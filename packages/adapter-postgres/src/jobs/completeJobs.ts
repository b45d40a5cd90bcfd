import * as Effect from "effect/Effect"
import {
  applyEvent,
  type JobId,
  type JsonObject,
  refusedJob,
  type StoreUnavailable,
  withinReservation,
} from "@kiln/core/domain"
import type { Completion, FencedOutcome, NewJob } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { readReservations } from "../reservations.ts"
import type { Transaction } from "../Session.ts"
import { statement } from "../Statement.ts"
import { createJobs, judgeJobs, readBatch } from "./createJobs.ts"
import {
  type AnnounceFinished,
  completeAlone,
  doneOf,
  type EndAnswer,
  endedClaims,
  endFree,
  isPriced,
  outcomesOf,
  sortedEnds,
} from "./endJobs.ts"
import { stateOf } from "./jobRow.ts"
import { lockedJobs } from "./lockJobs.ts"
import { finishJobs } from "./writeStates.ts"

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
