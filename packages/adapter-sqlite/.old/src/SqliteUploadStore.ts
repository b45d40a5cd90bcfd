import { UploadStore } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { claimUpload } from "./sql/claimUpload.ts"
import { completeUpload } from "./sql/completeUpload.ts"
import { createUploads } from "./sql/createUploads.ts"
import { deleteUploads } from "./sql/deleteUploads.ts"
import { expireUploads } from "./sql/expireUploads.ts"
import { extendUpload } from "./sql/extendUpload.ts"
import { findUpload } from "./sql/findUpload.ts"
import { findUploadOrphans } from "./sql/findUploadOrphans.ts"
import { releaseUpload } from "./sql/releaseUpload.ts"

export const makeSqliteUploadStore = (db: Database): UploadStore["Service"] =>
  UploadStore.of({
    createUploads: (uploads) => db.write("UploadStore.createUploads", (tx) => createUploads(tx, uploads)),
    findUpload: (uploadId) => db.read("UploadStore.findUpload", (tx) => findUpload(tx, uploadId)),
    claimUpload: (request) => db.write("UploadStore.claimUpload", (tx) => claimUpload(tx, request)),
    extendUpload: (transfer) => db.write("UploadStore.extendUpload", (tx) => extendUpload(tx, transfer)),
    completeUpload: (transfer) => db.write("UploadStore.completeUpload", (tx) => completeUpload(tx, transfer)),
    releaseUpload: (transfer) => db.write("UploadStore.releaseUpload", (tx) => releaseUpload(tx, transfer)),
    expireUploads: (limit) => db.write("UploadStore.expireUploads", (tx) => expireUploads(tx, limit)),
    deleteUploads: (olderThanMs, limit) =>
      db.write("UploadStore.deleteUploads", (tx) => deleteUploads(tx, olderThanMs, limit)),
    findUploadOrphans: (blobs) => db.read("UploadStore.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
  })
