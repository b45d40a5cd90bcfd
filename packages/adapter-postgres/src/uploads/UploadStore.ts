import { UploadStore } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { wholeAge } from "../Statement.ts"
import { claimUpload, completeUpload, extendUpload, releaseUpload } from "./transfers.ts"
import { createUploads } from "./createUploads.ts"
import { keptBytes } from "./keptBytes.ts"
import { anyErasedUpload, anyUnusedUpload, deleteUploads, expireUploads, findUploadOrphans } from "./sweepUploads.ts"
import { findUpload } from "./uploadRow.ts"

/** Transfers extend their leases on the heartbeats' connections. */
export const makePostgresUploadStore = (db: Database, heartbeats: Database): UploadStore["Service"] =>
  UploadStore.of({
    createUploads: (uploads) => db.write("UploadStore.createUploads", (tx) => createUploads(tx, uploads)),
    findUpload: (uploadId) => db.read("UploadStore.findUpload", (session) => findUpload(session, uploadId)),
    claimUpload: (request) => db.write("UploadStore.claimUpload", (tx) => claimUpload(tx, request)),
    extendUpload: (transfer) => heartbeats.write("UploadStore.extendUpload", (tx) => extendUpload(tx, transfer)),
    completeUpload: (transfer) => db.write("UploadStore.completeUpload", (tx) => completeUpload(tx, transfer)),
    releaseUpload: (transfer) => db.write("UploadStore.releaseUpload", (tx) => releaseUpload(tx, transfer)),
    keptBytes: (projectId, mode) => db.read("UploadStore.keptBytes", (session) => keptBytes(session, projectId, mode)),
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
