import {
  type AudioFormat,
  type JobMode,
  type KeyId,
  type ProjectId,
  transferEnd,
  type UploadId,
} from "@kiln/core/domain"
import type { CreateUploadOutcome, NewUpload } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { uploadById, uploadOf } from "../UploadRow.ts"
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
      now: number
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
      created_at: given.now,
      expires_at: given.expiresAt,
      usable_until: given.usableUntil,
      token: 0,
      transfers: 0,
      sweep_at: given.usableUntil,
    }),
)

export const createUploads = (tx: Transaction, uploads: ReadonlyArray<NewUpload>): ReadonlyArray<CreateUploadOutcome> =>
  uploads.map(({ cap, declaredSeconds, format, id, keyId, mode, projectId, transferWindowMs, usableForMs }) => {
    const { now } = tx
    if (cap !== undefined && countWaiting(tx, projectId, cap.maxTransfers) >= cap.uploads) return "UploadsFull"
    tx.run(insertUpload, {
      id,
      projectId,
      keyId,
      mode,
      format,
      declaredSeconds,
      now,
      expiresAt: transferEnd(now, transferWindowMs),
      usableUntil: now + usableForMs,
    })
    const row = tx.get(uploadById, { id })
    if (row === undefined) throw new TypeError("an inserted upload has a row")
    return uploadOf(row)
  })
