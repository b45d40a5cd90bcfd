import {
  type AudioFormat,
  type JobMode,
  judgeUpload,
  type KeyId,
  type ProjectId,
  type UploadId,
} from "@kiln/core/domain"
import type { CreateUploadOutcome, NewUpload } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { countWaiting } from "./uploadCap.ts"

/** The sweep looks at it when no job may use it any more. */
const insertUpload = statement(
  (
    given: Given<{
      id: UploadId
      projectId: ProjectId
      keyId: KeyId
      mode: JobMode
      format: AudioFormat
      declaredSeconds: number
      createdAt: number
      expiresAt: number
      usableUntil: number
    }>,
  ) =>
    query.insertInto("uploads").values({
      id: given.id,
      project_id: given.projectId,
      key_id: given.keyId,
      mode: given.mode,
      format: given.format,
      declared_seconds: given.declaredSeconds,
      created_at: given.createdAt,
      expires_at: given.expiresAt,
      usable_until: given.usableUntil,
      token: 0,
      transfers: 0,
      sweep_at: given.usableUntil,
    }),
)

export const createUploads = (tx: Transaction, uploads: ReadonlyArray<NewUpload>): ReadonlyArray<CreateUploadOutcome> =>
  uploads.map((upload) => {
    const { cap, projectId } = upload
    const waiting = cap === undefined ? 0 : countWaiting(tx, projectId, cap.maxTransfers)
    const outcome = judgeUpload(upload, waiting, tx.now)
    if (outcome !== "UploadsFull") tx.run(insertUpload, outcome)
    return outcome
  })
