import { type RawBuilder, sql } from "kysely"
import type { JobMode, KeptBytes, ProjectId } from "@kiln/core/domain"
import type { Program, Sql } from "./Sql.ts"
import { type Given, query, statement } from "./Statement.ts"
import { isUnused } from "./uploadSweeps.ts"

// The indexes of Postgres are on expressions, so that no plan of a statement about one upload reads them whole; those of SQLite are
// on columns. Each condition is there for both.

type Project = { readonly projectId: ProjectId; readonly now: number }

const sumOf = (column: string): RawBuilder<number> => sql<number>`cast(coalesce(sum(${sql.ref(column)}), 0) as bigint)`

/** The uploads of a project whose file no job has used. The index holds none that a job took; the subquery checks it anyway. */
export const storedUploads = statement((given: Given<Project>) =>
  query
    .selectFrom("uploads")
    .select((of) => [of.fn.countAll<number>().as("count"), sumOf("bytes").as("bytes")])
    .where("project_id", "=", given.projectId)
    .where("usable_until", ">", given.now)
    .where("blob_key", "is not", null)
    .where(sql<boolean>`coalesce(blob_key, '') <> ''`)
    .where("erased", "=", false)
    .where("sweep_at", "is not", null)
    .where(isUnused),
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
    .where(sql<boolean>`coalesce(blob_key, '') = ''`)
    .where("erased", "=", false)
    .where((where) => where.or([where("transfers", "<", given.maxTransfers), where("claimed_until", ">", given.now)])),
)

/** Uploads whose transfer began before the URL expired and is still in progress. */
export const arrivingUploads = statement((given: Given<Project>) =>
  query
    .selectFrom("uploads")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("project_id", "=", given.projectId)
    .where("claimed_until", ">", given.now)
    .where(sql<boolean>`coalesce(claimed_until, 0) > 0`)
    .where("expires_at", "<=", given.now)
    .where("usable_until", ">", given.now),
)

/** Counts how many uploads of a project wait for jobs (`isWaiting`), and keeps others from adding to them until the transaction ends. */
export function* countWaiting(tx: Sql, projectId: ProjectId, maxTransfers: number): Program<number> {
  const now = yield* tx.now()
  const locked = tx.lock(`uploads ${projectId}`)
  const counts = [
    tx.get(storedUploads, { projectId, now }),
    tx.get(announcedUploads, { projectId, now, maxTransfers }),
    tx.get(arrivingUploads, { projectId, now }),
  ]
  yield* locked
  let waiting = 0
  for (const count of counts) waiting += (yield* count)?.count ?? 0
  return waiting
}

/** Sums the bytes of a project's files that wait for jobs, in the same way. Without a cap, 0, and no question to the database. */
export function* storedBytes(tx: Sql, projectId: ProjectId, capBytes = 0): Program<number> {
  if (capBytes <= 0) return 0
  const now = yield* tx.now()
  const locked = tx.lock(`uploads ${projectId}`)
  const stored = tx.get(storedUploads, { projectId, now })
  yield* locked
  return (yield* stored)?.bytes ?? 0
}

/** Postgres has several rows for a project. */
const kept = statement((given: Given<{ readonly projectId: ProjectId; readonly mode: JobMode }>) =>
  query
    .selectFrom("kept_bytes")
    .select([sumOf("uploads").as("uploads"), sumOf("files").as("files")])
    .where("project_id", "=", given.projectId)
    .where("mode", "=", given.mode),
)

export const nothingKept: KeptBytes = { uploads: 0, files: 0 }

/** Returns the bytes that a project keeps, as triggers count them. */
export function* keptBytes(tx: Sql, projectId: ProjectId, mode: JobMode): Program<KeptBytes> {
  return (yield* tx.get(kept, { projectId, mode })) ?? nothingKept
}
