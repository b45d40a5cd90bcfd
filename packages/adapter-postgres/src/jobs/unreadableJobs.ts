import type { JobId } from "@kiln/core/domain"
import { applyEvent, isClaimable, lostTooMany } from "@kiln/core/rules"
import type { Claim } from "@kiln/core/ports"
import { UndecodableRow } from "@kiln/sql-store"
import { isCorrupt } from "../connection/postgresErrors.ts"
import type { Transaction } from "../connection/Session.ts"
import { uploadOf, uploadsOfJobs } from "../uploads.ts"
import { jobOf, jobsBySeq, stateOf } from "./jobRow.ts"
import { finishJobs, lockedJobs, refsTo, withoutResult } from "./moveJobs.ts"
/** A job that a claim of this process holds. */
export interface Held {
  readonly jobId: JobId
  readonly token: number
}

/** Fails jobs that a claim of this process holds and that cannot be read. */
export const failHeld = async (tx: Transaction, claims: ReadonlyArray<Held>): Promise<void> => {
  const tokens = new Map(claims.map(({ jobId, token }) => [jobId, token]))
  const moves = (await lockedJobs(tx, claims)).flatMap((from) => {
    const token = tokens.get(from.id) ?? from.token
    const to = applyEvent(stateOf(from), { event: "failed", token, errorCode: "internal_error" }, tx.now)
    return to === undefined ? [] : [withoutResult({ from, to })]
  })
  await finishJobs(tx, moves)
}

/** Fails jobs that have lost too many workers, unless somebody moved them meanwhile. Returns those that failed. */
export const failAbandoned = async (
  tx: Transaction,
  jobIds: ReadonlyArray<JobId>,
  maxLostWorkers: number,
): Promise<ReadonlyArray<JobId>> => {
  const jobs = await lockedJobs(tx, refsTo(jobIds))
  const endings = jobs.flatMap((from) => {
    if (!lostTooMany(from, maxLostWorkers) || !isClaimable(from, tx.now)) return []
    const to = applyEvent(stateOf(from), { event: "abandoned" }, tx.now)
    return to === undefined ? [] : [withoutResult({ from, to })]
  })
  await finishJobs(tx, endings)
  return endings.map(({ from }) => from.id)
}

/** Reads a job that this process claimed without reading it; `undefined` if that is impossible. */
export const readHeld = async (tx: Transaction, { jobId, token }: Held): Promise<Claim | undefined> => {
  const [held] = await lockedJobs(tx, [{ jobId }])
  if (held?.token !== token) return undefined
  const [[row], [upload]] = await Promise.all([
    tx.batch(jobsBySeq, [{ seq: held.seq }]),
    tx.batch(uploadsOfJobs, [{ seq: held.seq }]),
  ])
  if (row === undefined) return undefined
  try {
    const job = jobOf(row)
    return {
      job,
      token,
      leaseRemainingMs: (job.claimableAt ?? tx.now) - tx.now,
      upload: upload === undefined ? null : uploadOf(upload),
    }
  } catch (error) {
    if (error instanceof UndecodableRow || isCorrupt(error)) return undefined
    throw error
  }
}
