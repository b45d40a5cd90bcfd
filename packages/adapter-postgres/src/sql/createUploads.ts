import {
  type AudioFormat,
  type JobMode,
  judgeUpload,
  type KeyId,
  type ProjectId,
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
  const waiting = await countWaiting(tx, items)
  const outcomes = items.map((item) => {
    const count = waiting.get(item.projectId) ?? 0
    const outcome = judgeUpload(item, count, now)
    if (outcome !== "UploadsFull") waiting.set(item.projectId, count + 1)
    return outcome
  })
  await tx.runBatch(
    insertUploads,
    outcomes.filter((outcome) => outcome !== "UploadsFull"),
    { now },
  )
  return outcomes
}

/** How many uploads of projects with a cap wait for jobs. Projects in order, so that no two transactions wait for each other. */
const countWaiting = async (tx: Transaction, items: ReadonlyArray<NewUpload>): Promise<Map<ProjectId, number>> => {
  const waiting = new Map<ProjectId, number>()
  const capped = items.filter(({ cap }) => cap !== undefined).toSorted((a, b) => (a.projectId < b.projectId ? -1 : 1))
  for (const { cap, projectId } of capped)
    if (cap !== undefined && !waiting.has(projectId))
      waiting.set(projectId, await lockedWaiting(tx, projectId, cap.maxTransfers))
  return waiting
}
