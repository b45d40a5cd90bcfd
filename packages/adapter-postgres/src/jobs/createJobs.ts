import type { Job, JobId, JobMode, KeyId, ProjectId, Spending, SpendOwner, Upload, UploadId } from "@kiln/core/domain"
import {
  advanceAfter,
  type BoundKey,
  type JobFacts,
  judgeJob,
  labelsOf,
  maximumCostOf,
  withoutReservation,
  withReservation,
} from "@kiln/core/rules"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { isReplacedKey, Superseded } from "../connection/postgresErrors.ts"
import type { Session, Transaction } from "../connection/Session.ts"
import { keptOf, type KeptOfProjects, lockUploads, ownUploads, readKept, uploadOf } from "../uploads.ts"
import { lockedSchedules, writeSchedule } from "./schedules.ts"
import { loadBoard, type StoredBoard } from "../board.ts"
import {
  addUp,
  cappedOwners,
  lockSpending,
  noSpending,
  type ReadSpending,
  type Reservation,
  reservationsOf,
  reserve,
  spendingAt,
  unreserveJobs,
} from "../spending.ts"
import { type Bound, boundKeys, isCallersKey, replaceJobs, replaces, type Replacing } from "./replaceJobs.ts"
import { addJobs, asStored, keyName, newRow, type NewRow } from "./insertJobs.ts"
import { inheritScopes, leaveScopesOf, lockedScopes } from "./labels.ts"
import { findLanes, makeLanes } from "./lanes.ts"
import { detachRetried, lockedRetried, type RetriedJob } from "./retriedJobs.ts"
import { countUnfinished, oneAtATimePerProject } from "./queueCap.ts"

/** The facts read before the items of a batch are judged. */
export interface Read {
  readonly bound: ReadonlyArray<Bound>
  /** The jobs that took the scopes of these items last. */
  readonly holders: ReadonlyMap<string, Job>
  readonly board: StoredBoard | undefined
  readonly uploads: ReadonlyArray<Upload>
  readonly spending: ReadSpending
  /** Of the holders whose request may be replaced. */
  readonly reserved: ReadonlyArray<Reservation>
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
  readonly bound: Map<string, BoundKey>
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
  readonly replaced: Array<Replacing>
  /** What the jobs of this batch, and those whose request may be replaced, reserve by now. */
  readonly reserved: Map<JobId, ReadonlyArray<Reservation>>
  /** The jobs whose reservations change. */
  readonly reserving: Set<JobId>
}

/** The outcomes of a batch, and what is to be written for it. */
export interface Judged {
  readonly outcomes: ReadonlyArray<CreateOutcome>
  readonly accepted: ReadonlyArray<NewRow>
  readonly replaced: ReadonlyArray<Replacing>
  /** Jobs that had reservations before, which these replace. */
  readonly unreserved: ReadonlyArray<JobId>
  readonly reservations: ReadonlyArray<Reservation>
}

const uploadName = (item: { projectId: ProjectId; keyId: KeyId; mode: JobMode; id: UploadId }) =>
  [item.projectId, item.keyId, item.mode, item.id].join(" ")

/** Judges a batch. Items earlier in the batch count for later ones. */
export const judgeJobs = (
  now: number,
  items: ReadonlyArray<NewJob>,
  { board, bound, holders, kept, reserved, retried, schedules, spending, unfinished, uploads }: Omit<Read, "lanes">,
): Judged => {
  const batch: Batch = {
    now,
    bound: new Map(bound.map((key) => [keyName(key), key])),
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
    replaced: [],
    reserved: Map.groupBy(reserved, ({ entry }) => entry as JobId),
    reserving: new Set(),
  }
  const outcomes = items.map((item, index) => judge(batch, item, index))
  return {
    outcomes,
    accepted: batch.accepted,
    replaced: batch.replaced,
    unreserved: [...new Set(reserved.map(({ entry }) => entry as JobId))].filter((id) => batch.reserving.has(id)),
    reservations: [...batch.reserving].flatMap((id) => batch.reserved.get(id) ?? []),
  }
}

/** Jobs that were refused although their scope was free. */
export const withoutScope = (
  items: ReadonlyArray<NewJob>,
  outcomes: ReadonlyArray<CreateOutcome>,
): ReadonlyArray<NewJob> =>
  items.filter((_, index) => !["Created", "Replaced", "Duplicate"].includes(outcomes[index]?._tag ?? ""))

/** Writes accepted jobs in one flight, if their lanes are known. Throws `Superseded` where another transaction has bound a key meanwhile. */
const writeAccepted = async (
  tx: Transaction,
  rows: ReadonlyArray<NewRow>,
  lanes: Map<string, number>,
): Promise<void> => {
  if (rows.length === 0) return
  await makeLanes(
    tx,
    rows.map(({ item }) => item),
    lanes,
  )
  const [, added] = await Promise.all([
    detachRetried(tx, rows),
    addJobs(tx, rows, lanes, { own: true, acceptedAt: tx.now }).catch((error: unknown) => {
      throw isReplacedKey(error) ? new Superseded() : error
    }),
  ])
  // When the step starts over, it finds a replay, or that a lane is missing.
  if (added.accepted === null || added.refused !== null) throw new Superseded()
  await inheritScopes(tx, rows)
}

export const createJobs = async (
  tx: Transaction,
  items: ReadonlyArray<NewJob>,
  read: Read,
): Promise<ReadonlyArray<CreateOutcome>> => {
  const { accepted, outcomes, replaced, reservations, unreserved } = judgeJobs(tx.now, items, read)
  // In the order of the items, which decides between new lanes.
  if (replaced.length > 0)
    await makeLanes(
      tx,
      items.filter((_, index) => isWritten(outcomes[index])),
      read.lanes,
    )
  await writeAccepted(tx, accepted, read.lanes)
  await replaceJobs(tx, replaced)
  await advanceSchedules(tx, items, outcomes)
  await leaveScopesOf(tx, withoutScope(items, outcomes))
  if (unreserved.length > 0) tx.commitWith(unreserveJobs(tx, unreserved))
  if (reservations.length > 0) tx.commitWith(reserve(tx, reservations, null), addUp(tx, read.spending))
  return outcomes
}

const isWritten = (outcome: CreateOutcome | undefined): boolean =>
  outcome?._tag === "Created" || outcome?._tag === "Replaced"

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

/**
 * The same without lanes. `alone`: locks projects that have a queue cap, and spend caps, until the transaction ends. In a caller's
 * transaction, nothing is locked that others need, and spending is not read.
 */
export const readItems = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
  alone: boolean,
): Promise<Omit<Read, "lanes">> => {
  const owners = alone ? cappedOwners(items) : []
  const first = Promise.all([lockedSchedules(session, items), lockedScopes(session, items, alone)])
  // Uploads that are released are locked with the others.
  const released = items.some(replaces) ? await first.then(([, holders]) => releasable(items, holders)) : []
  const consumed = [...items, ...released].flatMap(({ keyId, mode, projectId, uploadId: id }) =>
    id === null ? [] : [{ id, projectId, keyId, mode }],
  )
  const [[schedules, holders], retried, , , spending, reserved, unfinished, kept, board, uploads, bound] =
    await Promise.all([
      first,
      lockedRetried(session, items),
      session.batch(lockUploads, consumed),
      alone && oneAtATimePerProject(session, items),
      owners.length === 0 ? noSpending : lockSpending(session, owners),
      released.length === 0
        ? []
        : reservationsOf(
            session,
            released.map(({ id }) => id),
          ),
      countUnfinished(session, items),
      readKept(session, items),
      items.some(({ gate }) => gate !== null) ? loadBoard(session) : undefined,
      session.batch(ownUploads, consumed),
      boundKeys(session, items),
    ])
  return {
    bound,
    holders,
    board,
    uploads: uploads.map(uploadOf),
    spending,
    reserved,
    unfinished,
    retried,
    schedules,
    kept,
  }
}

/** The jobs whose request may be replaced, each once. */
const releasable = (items: ReadonlyArray<NewJob>, holders: ReadonlyMap<string, Job>): ReadonlyArray<Job> => [
  ...new Set(items.flatMap((item) => (replaces(item) ? (holders.get(item.unique?.scope ?? "") ?? []) : []))),
]

const judge = (batch: Batch, item: NewJob, index: number): CreateOutcome => {
  const outcome = judgeJob(item, factsOf(batch, item, index))
  // A later item of this tick finds that it has its job.
  if (item.tick !== undefined && advanceAfter(item.tick, outcome) !== undefined) batch.schedules.delete(item.tick.name)
  if (outcome._tag !== "Created" && outcome._tag !== "Replaced") return outcome
  const { _tag } = outcome
  const job = asStored(outcome.job)
  const retried = batch.retried.get(index)
  const priceId = item.gate?.price == null ? null : (batch.board?.stored[item.gate.price]?.id ?? null)
  const row = newRow(item, job, priceId, retried)
  if (_tag === "Created") {
    batch.accepted.push(row)
    noteAccepted(batch, job)
  } else noteReplaced(batch, job, row)
  if (item.unique !== undefined) batch.holders.set(item.unique.scope, job)
  if (retried !== undefined) noteRetried(batch, retried, job)
  noteReserved(batch, item, job)
  return { _tag, job }
}

const factsOf = (batch: Batch, item: NewJob, index: number): JobFacts => ({
  now: batch.now,
  scheduleVersion: () => (item.tick === undefined ? undefined : batch.schedules.get(item.tick.name)),
  existing: () => batch.bound.get(keyName(item)),
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
  spending: (replaced) =>
    [item.keyId, item.projectId].flatMap((owner) => {
      const known = batch.spending.get(owner)
      return known === undefined ? [] : [withoutReservations(known, reservationsIn(batch, replaced))]
    }),
  kept: () => keptOf(batch.kept, item),
  unfinished: () => batch.unfinished.get(item.projectId) ?? 0,
})

/** Updates the facts with an accepted job, for the items that follow. */
const noteAccepted = (batch: Batch, job: Job): void => {
  batch.bound.set(keyName(job), { job, fingerprint: job.fingerprint })
  batch.unfinished.set(job.projectId, (batch.unfinished.get(job.projectId) ?? 0) + 1)
  consume(batch, job, job.uploadId, job.id)
}

/** A retry takes the upload of the failed job, and the scopes that this still has, as `inheritScopes` writes them. */
const noteRetried = (batch: Batch, { id }: RetriedJob, retry: Job): void => {
  batch.retriedHere.add(id)
  for (const [scope, holder] of batch.holders) if (holder.id === id) batch.holders.set(scope, retry)
  for (const [name, bound] of batch.bound)
    if (bound.job.id === id) batch.bound.set(name, { ...bound, job: { ...bound.job, uploadId: null } })
}

const consume = (batch: Batch, job: Job, id: UploadId | null, jobId: JobId | null): void => {
  const name = id === null ? "" : uploadName({ ...job, id })
  const upload = batch.uploads.get(name)
  if (upload !== undefined) batch.uploads.set(name, { ...upload, jobId })
}

/** Updates the facts with a job that has another request by now. Its other keys stay bound to it. */
const noteReplaced = (batch: Batch, job: Job, row: NewRow): void => {
  const before = [...batch.holders.values()].find(({ id }) => id === job.id)
  if (before === undefined) throw new TypeError(`${job.id} has no scope`)
  const remembers = isCallersKey(before.idempotencyKey)
  batch.replaced.push({ ...row, labels: labelsOf(job.metadata), remembers })
  if (remembers) batch.bound.set(keyName(before), { job, fingerprint: before.fingerprint })
  for (const [name, bound] of batch.bound) if (bound.job.id === job.id) batch.bound.set(name, { ...bound, job })
  batch.bound.set(keyName(job), { job, fingerprint: job.fingerprint })
  consume(batch, job, before.uploadId, null)
  consume(batch, job, job.uploadId, job.id)
  for (const { amount, currency, owner } of reservationsIn(batch, job.id)) {
    const known = batch.spending.get(owner)
    if (known !== undefined) batch.spending.set(owner, withoutReservations(known, [{ amount, currency, owner }]))
  }
  batch.reserved.delete(job.id)
  batch.reserving.add(job.id)
}

const reservationsIn = ({ reserved }: Batch, jobId: JobId | undefined): ReadonlyArray<Reservation> =>
  (jobId && reserved.get(jobId)) ?? []

/** Returns the spending of an owner without these of its reservations. */
const withoutReservations = (
  spending: Spending,
  reservations: ReadonlyArray<Pick<Reservation, "amount" | "currency" | "owner">>,
): Spending =>
  reservations
    .filter(({ currency, owner }) => owner === spending.owner && currency === spending.cap.currency)
    .reduce((left, { amount }) => withoutReservation(left, amount), spending)

/** Reserves what an accepted job may cost at most, for those of its key and project that have a cap. */
const noteReserved = (
  { reserved, reserving, spending }: Batch,
  item: NewJob,
  { id: entry, keyId, price, projectId }: Job,
): void => {
  const amount = price === null ? undefined : maximumCostOf(item, price)
  if (price === null || amount === undefined) return
  for (const owner of [keyId, projectId]) {
    const known = spending.get(owner)
    if (known === undefined) continue
    if (known.cap.currency === price.currency) spending.set(owner, withReservation(known, amount))
    reserved.set(entry, [...(reserved.get(entry) ?? []), { owner, entry, currency: price.currency, amount }])
    reserving.add(entry)
  }
}
