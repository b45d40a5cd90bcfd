import { UploadStore } from "@kiln/core/ports"
import { deleteUploads, expireUploads, findUploadOrphans, transferVerbs } from "@kiln/sql-store"
import type { Database } from "../Database.ts"
import { ago, type Given, query, statement, storeTime, wholeAge } from "../Statement.ts"
import { runOn, transactionsOf } from "../transactionsOf.ts"

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
    findUploadOrphans: (blobs) =>
      transactionsOf(db).read("UploadStore.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
  })
