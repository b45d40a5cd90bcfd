import { UploadStore } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { wholeAge } from "./Statement.ts"
import { claimUpload } from "./sql/claimUpload.ts"
import { completeUpload } from "./sql/completeUpload.ts"
import { createUploads } from "./sql/createUploads.ts"
import { anyErasedUpload, deleteUploads } from "./sql/deleteUploads.ts"
import { anyUnusedUpload, expireUploads } from "./sql/expireUploads.ts"
import { extendUpload } from "./sql/extendUpload.ts"
import { findUpload } from "./sql/findUpload.ts"
import { findUploadOrphans } from "./sql/findUploadOrphans.ts"
import { releaseUpload } from "./sql/releaseUpload.ts"

/** Transfers keep their leases on the connections of the heartbeats. */
export const makePostgresUploadStore = (db: Database, heartbeats: Database): UploadStore["Service"] =>
  UploadStore.of({
    createUploads: (uploads) => db.write("UploadStore.createUploads", (tx) => createUploads(tx, uploads)),
    findUpload: (uploadId) => db.read("UploadStore.findUpload", (session) => findUpload(session, uploadId)),
    claimUpload: (request) => db.write("UploadStore.claimUpload", (tx) => claimUpload(tx, request)),
    extendUpload: (transfer) => heartbeats.write("UploadStore.extendUpload", (tx) => extendUpload(tx, transfer)),
    completeUpload: (transfer) => db.write("UploadStore.completeUpload", (tx) => completeUpload(tx, transfer)),
    releaseUpload: (transfer) => db.write("UploadStore.releaseUpload", (tx) => releaseUpload(tx, transfer)),
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
