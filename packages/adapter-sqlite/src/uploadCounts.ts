import type { JobMode, KeptBytes, ProjectId } from "@kiln/core/domain"
import { type Given, query, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

type Project = { readonly projectId: ProjectId; readonly now: number }

/** The uploads of a project whose file no job has used. The index holds none that a job took; the subquery checks it anyway. */
const stored = (given: Given<Project>) =>
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

export const storedUploads = statement((given: Given<Project>) =>
  stored(given).select((of) => [
    of.fn.countAll<number>().as("count"),
    of.fn.coalesce(of.fn.sum<number>("bytes"), of.lit(0)).as("bytes"),
  ]),
)

/** Uploads whose transfer may still begin or is in progress. */
export const announcedUploads = statement((given: Given<Project & { readonly maxTransfers: number }>) =>
  query
    .selectFrom("uploads")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("expires_at", ">", given.now)
    .where("usable_until", ">", given.now)
    .where("blob_key", "is", null)
    .where("erased", "=", 0)
    .where((where) => where.or([where("transfers", "<", given.maxTransfers), where("claimed_until", ">", given.now)])),
)

/** Uploads whose transfer began before the URL expired and is still in progress. */
export const arrivingUploads = statement((given: Given<Project>) =>
  query
    .selectFrom("uploads")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("claimed_until", ">", given.now)
    .where("expires_at", "<=", given.now)
    .where("usable_until", ">", given.now),
)

/** Returns how many uploads of a project wait for jobs (`isWaiting`). */
export const countWaiting = (tx: Transaction, projectId: ProjectId, maxTransfers: number): number => {
  const { now } = tx
  return (
    (tx.get(storedUploads, { projectId, now })?.count ?? 0) +
    (tx.get(announcedUploads, { projectId, now, maxTransfers })?.count ?? 0) +
    (tx.get(arrivingUploads, { projectId, now })?.count ?? 0)
  )
}

/** Returns the bytes of a project's files that wait for jobs. */
export const storedBytes = (tx: Transaction, projectId: ProjectId): number =>
  tx.get(storedUploads, { projectId, now: tx.now })?.bytes ?? 0

const kept = statement((given: Given<{ readonly projectId: ProjectId; readonly mode: JobMode }>) =>
  query
    .selectFrom("kept_bytes")
    .select(["uploads", "files"])
    .where("project_id", "=", given.projectId)
    .where("mode", "=", given.mode),
)

export const nothingKept: KeptBytes = { uploads: 0, files: 0 }

/** Returns the bytes that a project keeps, as triggers count them. */
export const keptBytes = (tx: Transaction, projectId: ProjectId, mode: JobMode): KeptBytes =>
  tx.get(kept, { projectId, mode }) ?? nothingKept
