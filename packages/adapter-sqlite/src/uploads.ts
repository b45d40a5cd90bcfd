import type { JobMode, KeptBytes, ProjectId, Upload, UploadId } from "@kiln/core/domain"
import { UploadStore } from "@kiln/core/ports"
import {
  deleteUploads,
  expireUploads,
  findUpload as find,
  keptBytes as kept,
  selectUploads,
  transferVerbs,
} from "@kiln/sql-store"
import type { Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { countedInParts, prunedInParts } from "./disk/fullDisk.ts"
import { type Given, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
import { runIn, transactionsOf } from "./transactionsOf.ts"

/** The upload of another key, project or mode counts as unknown. */
export const ownUpload = statement((given: Given<Values<"uploads", "id" | "project_id" | "key_id" | "mode">>) =>
  selectUploads
    .where("uploads.id", "=", given.id)
    .where("uploads.project_id", "=", given.projectId)
    .where("uploads.key_id", "=", given.keyId)
    .where("uploads.mode", "=", given.mode),
)

/** In a transaction that creates or claims jobs. */
export const findUpload = (tx: Transaction, id: UploadId): Upload | undefined => runIn(tx, (common) => find(common, id))

export const keptBytes = (tx: Transaction, projectId: ProjectId, mode: JobMode): KeptBytes =>
  runIn(tx, (common) => kept(common, projectId, mode))

export const makeSqliteUploadStore = (db: Database): UploadStore["Service"] => {
  const common = transactionsOf(db)
  const expire = (limit: number) =>
    db.write("UploadStore.expireUploads", (tx) => {
      const result = runIn(tx, (within) => expireUploads(within, limit))
      if (result.count > 0) tx.noteErasure()
      return result
    })
  return UploadStore.of({
    ...transferVerbs(common),
    expireUploads: (limit) => prunedInParts(limit, expire),
    deleteUploads: (olderThanMs, limit) =>
      countedInParts(limit, (part) =>
        common.write("UploadStore.deleteUploads", (tx) => deleteUploads(tx, olderThanMs, part)),
      ),
  })
}
