import {
  type AudioFormat,
  type JobMode,
  type KeyId,
  type ProjectId,
  transferEnd,
  type Upload,
  type UploadId,
} from "@kiln/core/domain"
import type { NewUpload } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { batchStatement, query, whole } from "../Statement.ts"

/** The sweep looks at it when no job may use it any more. */
const insertUploads = batchStatement<
  {
    id: UploadId
    projectId: ProjectId
    keyId: KeyId
    mode: JobMode
    format: AudioFormat
    declaredSeconds: number
    expiresAt: number
    usableUntil: number
  },
  { now: number },
  unknown
>(
  {
    id: "text",
    projectId: "text",
    keyId: "text",
    mode: "text",
    format: "text",
    declaredSeconds: "double precision",
    expiresAt: "bigint",
    usableUntil: "bigint",
  },
  (item, given) =>
    query
      .insertInto("uploads")
      .columns([
        "id",
        "project_id",
        "key_id",
        "mode",
        "format",
        "declared_seconds",
        "expires_at",
        "usable_until",
        "sweep_at",
        "created_at",
        "token",
        "transfers",
      ])
      .expression(
        query
          .selectFrom(item)
          .select([
            "item.id",
            "item.projectId",
            "item.keyId",
            "item.mode",
            "item.format",
            "item.declaredSeconds",
            "item.expiresAt",
            "item.usableUntil",
            "item.usableUntil as sweepAt",
            whole(given.now).as("createdAt"),
          ])
          .select((select) => [select.lit(0).as("token"), select.lit(0).as("transfers")])
          .orderBy("item.ord"),
      ),
)

export const createUploads = async (
  tx: Transaction,
  items: ReadonlyArray<NewUpload>,
): Promise<ReadonlyArray<Upload>> => {
  const { now } = tx
  const uploads = items.map(
    ({ declaredSeconds, format, id, keyId, mode, projectId, transferWindowMs, usableForMs }): Upload => ({
      id,
      projectId,
      keyId,
      mode,
      format,
      declaredSeconds,
      createdAt: now,
      expiresAt: transferEnd(now, transferWindowMs),
      usableUntil: now + usableForMs,
      token: 0,
      claimedUntil: null,
      transfers: 0,
      file: null,
      jobId: null,
      erased: false,
    }),
  )
  await tx.runBatch(insertUploads, uploads, { now })
  return uploads
}
