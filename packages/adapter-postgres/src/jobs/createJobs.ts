import {
  advanceAfter,
  type Job,
  type JobFacts,
  type JobId,
  type JobMode,
  judgeJob,
  type KeyId,
  maximumCostOf,
  type ProjectId,
  type Spending,
  type SpendOwner,
  type Upload,
  type UploadId,
  withReservation,
} from "@kiln/core/domain"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { decodeObject } from "@kiln/sql-store"
import type { Session, Transaction } from "../Session.ts"
import { lockUploads, ownUploads, uploadOf } from "../uploads/uploadRow.ts"
import { keptOf, type KeptOfProjects, readKept } from "../uploads/keptBytes.ts"
import { lockedSchedules, writeSchedule } from "../schedules.ts"
import { loadBoard, type StoredBoard } from "../board.ts"
import { type Reservation, reserve } from "../reservations.ts"
import { addUp, lockSpending, noSpending, type ReadSpending, spendingAt } from "../spending.ts"
import { jobOf, jobsByIdempotencyKey } from "./jobRow.ts"
import { insertJobs } from "./insertJobs.ts"
import { newRow, type NewRow } from "./newRows.ts"
import { leaveScopesOf, lockedScopes } from "./labels.ts"
import { findLanes } from "./lanes.ts"
import { lockedRetried, type RetriedJob } from "./retriedJobs.ts"
import { countUnfinished, oneAtATimePerProject } from "./queueCap.ts"

/** The facts read before the items of a batch are judged. */
export interface Read {
  readonly jobs: ReadonlyArray<Job>
  /** The jobs that took the scopes of these items last. */
  readonly holders: ReadonlyMap<string, Job>
  readonly board: StoredBoard | undefined
  readonly uploads: ReadonlyArray<Upload>
  readonly spending: ReadSpending
  readonly unfinished: Map<ProjectId, number>
  readonly lanes: Map<string, number>
  readonly kept: KeptOfProjects
  /** The versions of the schedules whose ticks these items are for, by name. */
  readonly schedules: ReadonlyMap<string, number>
  /** By the index of the item that retries it. */
  readonly retried: ReadonlyMap<number, RetriedJob>
}

/** The facts of a batch, updated by each accepted item. */
interface Batch {
  readonly now: number
  readonly jobs: Map<string, Job>
  readonly holders: Map<string, Job>
  readonly board: StoredBoard | undefined
  readonly uploads: Map<string, Upload>
  readonly spending: Map<SpendOwner, Spending>
  readonly unfinished: Map<ProjectId, number>
  readonly schedules: Map<string, number>
  readonly kept: KeptOfProjects
  readonly retried: ReadonlyMap<number, RetriedJob>
  /** Failed jobs whose upload was given to a retry in this batch. */
  readonly retriedHere: Set<JobId>
  readonly accepted: Array<NewRow>
  readonly reservations: Array<Reservation>
}

/** The outcomes of a batch, and what is to be written for it. */
export interface Judged {
  readonly outcomes: ReadonlyArray<CreateOutcome>
  readonly accepted: ReadonlyArray<NewRow>
  readonly reservations: ReadonlyArray<Reservation>
}

export const keyName = ({ idempotencyKey, keyId }: Pick<NewJob, "keyId" | "idempotencyKey">) =>
  `${keyId} ${idempotencyKey}`
const uploadName = (item: { projectId: ProjectId; keyId: KeyId; mode: JobMode; id: UploadId }) =>
  [item.projectId, item.keyId, item.mode, item.id].join(" ")

/** Judges a batch. Items earlier in the batch count for later ones. */
export const judgeJobs = (
  now: number,
  items: ReadonlyArray<NewJob>,
  { board, holders, jobs, kept, retried, schedules, spending, unfinished, uploads }: Omit<Read, "lanes">,
): Judged => {
  const batch: Batch = {
    now,
    jobs: new Map(jobs.map((job) => [keyName(job), job])),
    holders: new Map(holders),
    board,
    uploads: new Map(uploads.map((upload) => [uploadName(upload), upload])),
    spending: spendingAt(spending, now),
    unfinished: new Map(unfinished),
    schedules: new Map(schedules),
    kept,
    retried,
    retriedHere: new Set(),
    accepted: [],
    reservations: [],
  }
  const outcomes = items.map((item, index) => judge(batch, item, index))
  return { outcomes, accepted: batch.accepted, reservations: batch.reservations }
}

/** Jobs that were refused although their scope was free. */
export const withoutScope = (
  items: ReadonlyArray<NewJob>,
  outcomes: ReadonlyArray<CreateOutcome>,
): ReadonlyArray<NewJob> =>
  items.filter((_, index) => outcomes[index]?._tag !== "Created" && outcomes[index]?._tag !== "Duplicate")

export const createJobs = async (
  tx: Transaction,
  items: ReadonlyArray<NewJob>,
  read: Read,
): Promise<ReadonlyArray<CreateOutcome>> => {
  const { accepted, outcomes, reservations } = judgeJobs(tx.now, items, read)
  await insertJobs(tx, accepted, read.lanes)
  await advanceSchedules(tx, items, outcomes)
  await leaveScopesOf(tx, withoutScope(items, outcomes))
  if (reservations.length > 0) tx.commitWith(reserve(tx, reservations, null), addUp(tx, read.spending))
  return outcomes
}

/** Advances the schedules whose ticks have a job by now. They are locked. */
const advanceSchedules = async (
  tx: Transaction,
  items: ReadonlyArray<NewJob>,
  outcomes: ReadonlyArray<CreateOutcome>,
): Promise<void> => {
  await Promise.all(
    outcomes.flatMap((outcome, index) => {
      const tick = items[index]?.tick
      const advanced = tick && advanceAfter(tick, outcome)
      return tick && advanced ? [writeSchedule(tx, tick.name, tick.version, advanced)] : []
    }),
  )
}

/**
 * Reads the facts in one round trip. The order matters: schedules and scopes are locked first, because a transaction that waits for one should hold nothing
 * that others need; retried jobs and uploads are locked before they are read, and keys are
 * looked up last, so that of two concurrent requests with one key, the one that finds the upload used or the queue full also
 * finds the other's job.
 */
export const readBatch = async (session: Session, items: ReadonlyArray<NewJob>): Promise<Read> => {
  const [read, lanes] = await Promise.all([readItems(session, items, true), findLanes(session, items)])
  return { ...read, lanes }
}

/** The owners whose spend caps decide about these items. */
export const cappedOwners = (items: ReadonlyArray<NewJob>): ReadonlyArray<SpendOwner> =>
  items.flatMap(({ gate, keyId, projectId }) => (gate !== null && gate.price !== null ? [keyId, projectId] : []))

/**
 * The same without lanes. `alone`: locks projects that have a queue cap, and spend caps, until the transaction ends. In a caller's
 * transaction, nothing is locked that others need, and spending is not read.
 */
export const readItems = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
  alone: boolean,
): Promise<Omit<Read, "lanes">> => {
  const consumed = items.flatMap(({ keyId, mode, projectId, uploadId: id }) =>
    id === null ? [] : [{ id, projectId, keyId, mode }],
  )
  const owners = alone ? cappedOwners(items) : []
  const [schedules, holders, retried, , , spending, unfinished, kept, board, uploads, jobs] = await Promise.all([
    lockedSchedules(session, items),
    lockedScopes(session, items, alone),
    lockedRetried(session, items),
    session.batch(lockUploads, consumed, {}),
    alone && oneAtATimePerProject(session, items),
    owners.length === 0 ? noSpending : lockSpending(session, owners),
    countUnfinished(session, items),
    readKept(session, items),
    items.some(({ gate }) => gate !== null) ? loadBoard(session) : undefined,
    session.batch(ownUploads, consumed, {}),
    session.batch(jobsByIdempotencyKey, items, {}),
  ])
  return {
    jobs: jobs.map(jobOf),
    holders,
    board,
    uploads: uploads.map(uploadOf),
    spending,
    unfinished,
    retried,
    schedules,
    kept,
  }
}

const judge = (batch: Batch, item: NewJob, index: number): CreateOutcome => {
  const outcome = judgeJob(item, factsOf(batch, item, index))
  // A later item of this tick finds that it has its job.
  if (item.tick !== undefined && advanceAfter(item.tick, outcome) !== undefined) batch.schedules.delete(item.tick.name)
  if (outcome._tag !== "Created") return outcome
  const job = asStored(outcome.job)
  const retried = batch.retried.get(index)
  const priceId = item.gate?.price == null ? null : (batch.board?.stored[item.gate.price]?.id ?? null)
  batch.accepted.push(newRow(item, job, priceId, retried))
  noteAccepted(batch, job, retried)
  if (item.unique !== undefined) batch.holders.set(item.unique.scope, job)
  noteReserved(batch, item, job)
  return { _tag: "Created", job }
}

const factsOf = (batch: Batch, item: NewJob, index: number): JobFacts => ({
  now: batch.now,
  scheduleVersion: () => (item.tick === undefined ? undefined : batch.schedules.get(item.tick.name)),
  existing: () => batch.jobs.get(keyName(item)),
  scopeHolder: () => (item.unique === undefined ? undefined : batch.holders.get(item.unique.scope)),
  retried: () => {
    const job = batch.retried.get(index)
    return job && batch.retriedHere.has(job.id) ? { ...job, uploadId: null } : job
  },
  board: () => {
    if (batch.board === undefined)
      throw new TypeError("the switchboard was not read for a batch whose jobs have a gate")
    return batch.board
  },
  upload: () => (item.uploadId === null ? undefined : batch.uploads.get(uploadName({ ...item, id: item.uploadId }))),
  spending: () => [item.keyId, item.projectId].flatMap((owner) => batch.spending.get(owner) ?? []),
  kept: () => keptOf(batch.kept, item),
  unfinished: () => batch.unfinished.get(item.projectId) ?? 0,
})

/** Updates the facts with an accepted job, for the items that follow. */
const noteAccepted = (batch: Batch, job: Job, retried: RetriedJob | undefined): void => {
  batch.jobs.set(keyName(job), job)
  batch.unfinished.set(job.projectId, (batch.unfinished.get(job.projectId) ?? 0) + 1)
  if (retried !== undefined) batch.retriedHere.add(retried.id)
  if (job.uploadId === null) return
  const name = uploadName({ ...job, id: job.uploadId })
  const upload = batch.uploads.get(name)
  if (upload !== undefined) batch.uploads.set(name, { ...upload, jobId: job.id })
}

/** Reserves what an accepted job may cost at most, for those of its key and project that have a cap. */
const noteReserved = (
  { reservations, spending }: Batch,
  item: NewJob,
  { id: entry, keyId, price, projectId }: Job,
): void => {
  const amount = price === null ? undefined : maximumCostOf(item, price)
  if (price === null || amount === undefined) return
  for (const owner of [keyId, projectId]) {
    const known = spending.get(owner)
    if (known === undefined) continue
    if (known.cap.currency === price.currency) spending.set(owner, withReservation(known, amount))
    reservations.push({ owner, entry, currency: price.currency, amount })
  }
}

/** Returns the job as later readers will see it, with its JSON decoded again. */
export const asStored = (job: Job): Job => ({
  ...job,
  metadata: decodeObject(JSON.stringify(job.metadata), job.id),
  request: decodeObject(JSON.stringify(job.request), job.id),
})
