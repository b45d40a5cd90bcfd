import {
  type AudioFormat,
  type JobMode,
  type KeyId,
  type ProjectId,
  transferEnd,
  type Upload,
  type UploadId,
} from "@kiln/core/domain"
import type { CreateUploadOutcome, NewUpload } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { batchStatement, query, whole } from "../Statement.ts"
import { lockedWaiting } from "./uploadCap.ts"

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
): Promise<ReadonlyArray<CreateUploadOutcome>> => {
  const { now } = tx
  const fits = await withinCaps(tx, items)
  const uploads = items
    .filter((_, index) => fits[index] === true)
    .map(({ declaredSeconds, format, id, keyId, mode, projectId, transferWindowMs, usableForMs }): Upload => ({
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
    }))
  await tx.runBatch(insertUploads, uploads, { now })
  const created = uploads.values()
  return fits.map((fit) => (fit ? (created.next().value ?? "UploadsFull") : "UploadsFull"))
}

/** Whether each item is within its cap. Projects in order, so that no two transactions wait for each other. */
const withinCaps = async (tx: Transaction, items: ReadonlyArray<NewUpload>): Promise<ReadonlyArray<boolean>> => {
  const waiting = new Map<ProjectId, number>()
  const capped = items.filter(({ cap }) => cap !== undefined).toSorted((a, b) => (a.projectId < b.projectId ? -1 : 1))
  for (const { cap, projectId } of capped)
    if (cap !== undefined && !waiting.has(projectId))
      waiting.set(projectId, await lockedWaiting(tx, projectId, cap.maxTransfers))
  return items.map(({ cap, projectId }) => {
    const count = waiting.get(projectId) ?? 0
    if (cap !== undefined && count >= cap.uploads) return false
    waiting.set(projectId, count + 1)
    return true
  })
}
