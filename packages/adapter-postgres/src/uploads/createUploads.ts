import { sql } from "kysely"
import {
  type AudioFormat,
  type JobMode,
  judgeUpload,
  type KeptBytes,
  type KeyId,
  type ProjectId,
  type UploadId,
} from "@kiln/core/domain"
import type { CreateUploadOutcome, NewUpload } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { keptBytes } from "./keptBytes.ts"
import { batchStatement, type Given, query, statement, whole } from "../Statement.ts"
import { isUnused } from "./uploadRow.ts"

/** Lets one transaction at a time add to a project's waiting uploads, until it ends. */
const oneAtATime = statement((given: Given<{ projectId: ProjectId }>) =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".uploads ' || ${given.projectId}::text, 0))`.as(
      "lock",
    ),
  ),
)

type Project = Given<{ projectId: ProjectId; now: number }>

/** Files that wait for jobs. The index contains no consumed ones; the condition is checked nevertheless. */
const storedUploads = statement((given: Project) =>
  query
    .selectFrom("uploads")
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      sql<number>`coalesce(sum(bytes), 0)::bigint`.as("bytes"),
    ])
    .where("project_id", "=", given.projectId)
    .where("usable_until", ">", given.now)
    .where(sql<boolean>`coalesce(blob_key, '') <> ''`)
    .where(sql<boolean>`NOT erased`)
    .where("sweep_at", "is not", null)
    .where(isUnused),
)

/** Uploads whose transfer may still begin or is in progress. */
const announcedUploads = statement((given: Given<{ projectId: ProjectId; now: number; maxTransfers: number }>) =>
  query
    .selectFrom("uploads")
    .select((select) => select.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("expires_at", ">", given.now)
    .where("usable_until", ">", given.now)
    .where(sql<boolean>`coalesce(blob_key, '') = ''`)
    .where(sql<boolean>`NOT erased`)
    .where((where) => where.or([where("transfers", "<", given.maxTransfers), where("claimed_until", ">", given.now)])),
)

/** Uploads whose transfer began in time and continues past the expiry. */
const arrivingUploads = statement((given: Project) =>
  query
    .selectFrom("uploads")
    .select((select) => select.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("claimed_until", ">", given.now)
    .where(sql<boolean>`coalesce(claimed_until, 0) > 0`)
    .where("expires_at", "<=", given.now)
    .where("usable_until", ">", given.now),
)

/** Counts a project's waiting uploads (`isWaiting`) and locks the count until the transaction ends. */
const lockedWaiting = async (tx: Transaction, projectId: ProjectId, maxTransfers: number): Promise<number> => {
  const { now } = tx
  const [, ...counted] = await Promise.all([
    tx.all(oneAtATime, { projectId }),
    tx.get(storedUploads, { projectId, now }),
    tx.get(announcedUploads, { projectId, now, maxTransfers }),
    tx.get(arrivingUploads, { projectId, now }),
  ])
  return counted.reduce((sum, row) => sum + (row?.count ?? 0), 0)
}

/**
 * Sums the bytes of a project's waiting files and locks the sum until the transaction ends. Returns 0 without a query if there
 * is no cap. Lock the upload first, to avoid deadlocks.
 */
export const lockedBytes = async (tx: Transaction, projectId: ProjectId, capBytes = 0): Promise<number> => {
  if (capBytes <= 0) return 0
  const [, stored] = await Promise.all([
    tx.all(oneAtATime, { projectId }),
    tx.get(storedUploads, { projectId, now: tx.now }),
  ])
  return stored?.bytes ?? 0
}

/**
 * Returns the bytes that a project keeps, and lets one transaction at a time begin a transfer of the project, until it ends. Lock the upload first, to avoid
 * deadlocks.
 */
export const lockedKept = async (tx: Transaction, projectId: ProjectId, mode: JobMode): Promise<KeptBytes> => {
  const [, counted] = await Promise.all([tx.all(oneAtATime, { projectId }), keptBytes(tx, projectId, mode)])
  return counted
}

/** The sweep examines an upload when no job may use it any more. */
const insertUploads = batchStatement<
  {
    id: UploadId
    projectId: ProjectId
    keyId: KeyId
    mode: JobMode
    format: AudioFormat
    declaredSeconds: number
    expiresAt: number
    usableUntil: number
  },
  { now: number },
  unknown
>(
  {
    id: "text",
    projectId: "text",
    keyId: "text",
    mode: "text",
    format: "text",
    declaredSeconds: "double precision",
    expiresAt: "bigint",
    usableUntil: "bigint",
  },
  (item, given) =>
    query
      .insertInto("uploads")
      .columns([
        "id",
        "project_id",
        "key_id",
        "mode",
        "format",
        "declared_seconds",
        "expires_at",
        "usable_until",
        "sweep_at",
        "created_at",
        "token",
        "transfers",
      ])
      .expression(
        query
          .selectFrom(item)
          .select([
            "item.id",
            "item.projectId",
            "item.keyId",
            "item.mode",
            "item.format",
            "item.declaredSeconds",
            "item.expiresAt",
            "item.usableUntil",
            "item.usableUntil as sweepAt",
            whole(given.now).as("createdAt"),
          ])
          .select((select) => [select.lit(0).as("token"), select.lit(0).as("transfers")])
          .orderBy("item.ord"),
      ),
)

export const createUploads = async (
  tx: Transaction,
  items: ReadonlyArray<NewUpload>,
): Promise<ReadonlyArray<CreateUploadOutcome>> => {
  const { now } = tx
  const waiting = await countWaiting(tx, items)
  const outcomes = items.map((item) => {
    const count = waiting.get(item.projectId) ?? 0
    const outcome = judgeUpload(item, count, now)
    if (outcome !== "UploadsFull") waiting.set(item.projectId, count + 1)
    return outcome
  })
  await tx.runBatch(
    insertUploads,
    outcomes.filter((outcome) => outcome !== "UploadsFull"),
    { now },
  )
  return outcomes
}

/** Counts waiting uploads of projects with a cap, in the order of the ids to avoid deadlocks. */
const countWaiting = async (tx: Transaction, items: ReadonlyArray<NewUpload>): Promise<Map<ProjectId, number>> => {
  const waiting = new Map<ProjectId, number>()
  const capped = items.filter(({ cap }) => cap !== undefined).toSorted((a, b) => (a.projectId < b.projectId ? -1 : 1))
  for (const { cap, projectId } of capped)
    if (cap !== undefined && !waiting.has(projectId))
      waiting.set(projectId, await lockedWaiting(tx, projectId, cap.maxTransfers))
  return waiting
}
