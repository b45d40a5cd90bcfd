import { type JobFacts, type JobId, judgeJob, type ProjectId } from "@kiln/core/domain"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { ownUpload, uploadOf } from "../UploadRow.ts"
import { ownJob } from "./eraseJobs.ts"
import { findByIdempotencyKey } from "./findByIdempotencyKey.ts"
import { insertJob, type KnownLanes } from "./insertJob.ts"
import { loadBoard, type StoredBoard } from "./readBoard.ts"

/**
 * The claimable entries of a project's lanes are its unfinished jobs. They are counted in the
 * index that claims use, and no further than the cap.
 */
export const unfinishedJobs = statement((given: Given<{ projectId: ProjectId; cap: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("lanes")
        .innerJoin("jobs", "jobs.lane_id", "lanes.id")
        .select("jobs.lane_id")
        .where("lanes.project_id", "=", given.projectId)
        .where("jobs.claimable_at", "is not", null)
        .limit(given.cap)
        .as("unfinished"),
    )
    .select((select) => select.fn.countAll<number>().as("count")),
)

/** Frees a failed job's upload for its retry. The schema allows this one change of what a job was asked for. */
const letGoOfUpload = statement((given: Given<{ id: JobId }>) =>
  query.updateTable("jobs").set({ upload_id: null }).where("id", "=", given.id),
)

/** What the items of one batch share: read once, and kept up to date by those that come first. */
interface Batch {
  board?: StoredBoard
  readonly unfinished: Map<ProjectId, number>
  readonly cap: number
  readonly lanes: KnownLanes
}

/** Items earlier in the batch count for later ones. */
export const createJobs = (tx: Transaction, items: ReadonlyArray<NewJob>): ReadonlyArray<CreateOutcome> => {
  const cap = items.reduce((highest, item) => Math.max(highest, item.queueCap), 0)
  const batch: Batch = { unfinished: new Map(), cap, lanes: new Map() }
  return items.map((item) => createJob(tx, batch, item))
}

const createJob = (tx: Transaction, batch: Batch, item: NewJob): CreateOutcome => {
  const { gate, projectId, retryOf, uploadId } = item
  const outcome = judgeJob(item, factsOf(tx, batch, item))
  if (outcome._tag !== "Created") return outcome
  if (retryOf !== null && uploadId !== null) tx.run(letGoOfUpload, { id: retryOf })
  const priceId = gate?.price == null ? null : (batch.board?.stored[gate.price]?.id ?? null)
  const job = insertJob(tx, batch.lanes, outcome.job, priceId)
  const unfinished = batch.unfinished.get(projectId)
  if (unfinished !== undefined) batch.unfinished.set(projectId, unfinished + 1)
  return { _tag: "Created", job }
}

const factsOf = (
  tx: Transaction,
  batch: Batch,
  { idempotencyKey, keyId, mode, projectId, retryOf, uploadId }: NewJob,
): JobFacts => ({
  now: tx.now,
  existing: () => findByIdempotencyKey(tx, keyId, idempotencyKey),
  retried: () => (retryOf === null ? undefined : tx.get(ownJob, { id: retryOf, projectId, keyId, mode })),
  board: () => (batch.board ??= loadBoard(tx)),
  upload: () => {
    const row = uploadId === null ? undefined : tx.get(ownUpload, { id: uploadId, projectId, keyId, mode })
    return row && uploadOf(row)
  },
  unfinished: () => unfinishedOf(tx, batch, projectId),
})

const unfinishedOf = (tx: Transaction, batch: Batch, projectId: ProjectId): number => {
  const known = batch.unfinished.get(projectId)
  if (known !== undefined) return known
  const count = tx.get(unfinishedJobs, { projectId, cap: batch.cap })?.count ?? 0
  batch.unfinished.set(projectId, count)
  return count
}
