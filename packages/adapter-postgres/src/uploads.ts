import type { JobMode, KeptBytes, KeyId, ProjectId, UploadId } from "@kiln/core/domain"
import { deleteUploads, expireUploads, selectUploads, transferVerbs } from "@kiln/sql-store"
import { sql } from "kysely"
import { type NewJob, UploadStore } from "@kiln/core/ports"
import { ago, batchStatement, type Given, integer, query, statement, storeTime, text, wholeAge } from "./Statement.ts"
import type { Database } from "./connection/Database.ts"
import type { Session } from "./connection/Session.ts"
import { runOn, transactionsOf } from "./transactionsOf.ts"

export const uploadsOfJobs = batchStatement({ seq: integer() }, (item) =>
  selectUploads.innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq")),
)

/** Uploads of another key, project or mode count as unknown. */
export const ownUploads = batchStatement(
  { id: text<UploadId>(), projectId: text<ProjectId>(), keyId: text<KeyId>(), mode: text<JobMode>() },
  (item) =>
    selectUploads.innerJoin(item, (join) =>
      join
        .onRef("item.id", "=", "uploads.id")
        .onRef("item.projectId", "=", "uploads.project_id")
        .onRef("item.keyId", "=", "uploads.key_id")
        .onRef("item.mode", "=", "uploads.mode"),
    ),
)

/**
 * Locks uploads until the transaction ends, in the order of their ids to avoid deadlocks. The next statement reads the rows, so
 * it sees what was committed while this one waited.
 */
export const lockUploads = batchStatement({ id: text<UploadId>() }, (item) =>
  query
    .selectFrom("uploads")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "uploads.id"))
    .select("uploads.id")
    .orderBy("uploads.id")
    .forUpdate("uploads"),
)

export { uploadOf } from "@kiln/sql-store"

type Owner = { projectId: ProjectId; mode: JobMode }

/** A project has few rows, whatever it keeps: triggers count. */
const kept = batchStatement({ projectId: text<ProjectId>(), mode: text<JobMode>() }, (item) =>
  query
    .selectFrom("kept_bytes")
    .innerJoin(item, (join) =>
      join.onRef("item.projectId", "=", "kept_bytes.project_id").onRef("item.mode", "=", "kept_bytes.mode"),
    )
    .select([
      "kept_bytes.project_id as projectId",
      "kept_bytes.mode",
      sql<number>`sum(uploads)::bigint`.as("uploads"),
      sql<number>`sum(files)::bigint`.as("files"),
    ])
    .groupBy(["kept_bytes.project_id", "kept_bytes.mode"]),
)

const nothing: KeptBytes = { uploads: 0, files: 0 }

/** The bytes that projects keep, by project and mode. */
export type KeptOfProjects = ReadonlyMap<string, KeptBytes>

const nameOf = ({ mode, projectId }: Owner): string => `${projectId} ${mode}`

export const keptOf = (all: KeptOfProjects, owner: Owner): KeptBytes => all.get(nameOf(owner)) ?? nothing

/** Reads what the projects of these jobs keep, as far as a cap asks for it. */
export const readKept = async (session: Session, items: ReadonlyArray<NewJob>): Promise<KeptOfProjects> => {
  const capped = items.filter(({ storageCap = 0 }) => storageCap > 0)
  const owners = new Map(capped.map(({ mode, projectId }) => [nameOf({ mode, projectId }), { mode, projectId }]))
  const rows = await session.batch(kept, [...owners.values()])
  return new Map(rows.map(({ files, uploads, ...owner }) => [nameOf(owner), { uploads, files }]))
}

/** Looks for one that is due, in the index of the sweep. */
const anyUnusedUpload = statement(() =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", false)
    .where("sweep_at", "<=", storeTime)
    .orderBy("sweep_at")
    .limit(1),
)

/** Looks for one that is due, in the same index. */
const anyErasedUpload = statement((given: Given<{ olderThanMs: number }>) =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", true)
    .where("sweep_at", "<=", ago(given.olderThanMs))
    .orderBy("sweep_at")
    .limit(1),
)

/** Transfers extend their leases on the heartbeats' connections. */
export const makePostgresUploadStore = (db: Database, heartbeats: Database): UploadStore["Service"] =>
  UploadStore.of({
    ...transferVerbs(transactionsOf(db), transactionsOf(heartbeats)),
    expireUploads: (limit) =>
      db.writeIf(
        "UploadStore.expireUploads",
        (session) => session.any(anyUnusedUpload, {}),
        (tx) => runOn(tx, (common) => expireUploads(common, limit)),
        { count: 0, purges: [] },
      ),
    deleteUploads: (age, limit) => {
      const olderThanMs = wholeAge(age)
      return db.writeIf(
        "UploadStore.deleteUploads",
        (session) => session.any(anyErasedUpload, { olderThanMs }),
        (tx) => runOn(tx, (common) => deleteUploads(common, olderThanMs, limit)),
        0,
      )
    },
  })
