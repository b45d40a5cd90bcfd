import { UploadStore } from "@kiln/core/ports"
import { transferVerbs } from "@kiln/sql-store"
import type { Database } from "../Database.ts"
import { wholeAge } from "../Statement.ts"
import { transactionsOf } from "../transactionsOf.ts"
import { anyErasedUpload, anyUnusedUpload, deleteUploads, expireUploads, findUploadOrphans } from "./sweepUploads.ts"

/** Transfers extend their leases on the heartbeats' connections. */
export const makePostgresUploadStore = (db: Database, heartbeats: Database): UploadStore["Service"] =>
  UploadStore.of({
    ...transferVerbs(transactionsOf(db), transactionsOf(heartbeats)),
    expireUploads: (limit) =>
      db.writeIf(
        "UploadStore.expireUploads",
        (session) => session.any(anyUnusedUpload, {}),
        (tx) => expireUploads(tx, limit),
        { count: 0, purges: [] },
      ),
    deleteUploads: (age, limit) => {
      const olderThanMs = wholeAge(age)
      return db.writeIf(
        "UploadStore.deleteUploads",
        (session) => session.any(anyErasedUpload, { olderThanMs }),
        (tx) => deleteUploads(tx, olderThanMs, limit),
        0,
      )
    },
    findUploadOrphans: (blobs) =>
      db.read("UploadStore.findUploadOrphans", (session) => findUploadOrphans(session, blobs)),
  })
