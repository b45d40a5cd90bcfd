import type { ProjectId } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Project = Given<{ projectId: ProjectId; now: number }>

/** Files that wait for jobs. The index holds none that a job took; that none did is asked all the same. */
const stored = (given: Project) =>
  query
    .selectFrom("uploads")
    .where("project_id", "=", given.projectId)
    .where("usable_until", ">", given.now)
    .where("blob_key", "is not", null)
    .where("erased", "=", 0)
    .where("sweep_at", "is not", null)
    .where((where) =>
      where.not(
        where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
      ),
    )

export const storedUploads = statement((given: Project) =>
  stored(given).select((select) => [
    select.fn.countAll<number>().as("count"),
    select.fn.coalesce(select.fn.sum<number>("bytes"), select.lit(0)).as("bytes"),
  ]),
)

/** Those whose transfer may still begin, or runs. */
export const announcedUploads = statement((given: Given<{ projectId: ProjectId; now: number; maxTransfers: number }>) =>
  query
    .selectFrom("uploads")
    .select((select) => select.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("expires_at", ">", given.now)
    .where("usable_until", ">", given.now)
    .where("blob_key", "is", null)
    .where("erased", "=", 0)
    .where((where) => where.or([where("transfers", "<", given.maxTransfers), where("claimed_until", ">", given.now)])),
)

/** Those whose transfer began in time and runs past it. */
export const arrivingUploads = statement((given: Project) =>
  query
    .selectFrom("uploads")
    .select((select) => select.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("claimed_until", ">", given.now)
    .where("expires_at", "<=", given.now)
    .where("usable_until", ">", given.now),
)

/** How many uploads of a project wait for jobs (`isWaiting`). */
export const countWaiting = (tx: Transaction, projectId: ProjectId, maxTransfers: number): number => {
  const { now } = tx
  return (
    (tx.get(storedUploads, { projectId, now })?.count ?? 0) +
    (tx.get(announcedUploads, { projectId, now, maxTransfers })?.count ?? 0) +
    (tx.get(arrivingUploads, { projectId, now })?.count ?? 0)
  )
}

/** The bytes of a project's files that wait for jobs. */
export const storedBytes = (tx: Transaction, projectId: ProjectId): number =>
  tx.get(storedUploads, { projectId, now: tx.now })?.bytes ?? 0
