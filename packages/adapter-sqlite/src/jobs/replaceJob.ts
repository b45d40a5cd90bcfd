import { type BoundKey, type Job, keylessPrefix, labelsOf } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { insertData, insertionOf } from "./insertJob.ts"
import { jobByIdempotencyKey, jobByKeylessKey, jobBySeq, jobOf, stateById } from "./JobRow.ts"
import { insertLabel } from "./labels.ts"

const replaced = [
  "lane_id",
  "kind_version",
  "priority",
  "kept",
  "upload_id",
  "idempotency_key",
  "fingerprint",
  "price_id",
  "queue_limit_ms",
  "run_limit_ms",
  "claimable_at",
  "deadline_at",
  "phase_started_at",
  "waited_ms",
  "request",
] as const

/** The upload before is in the sweep's way again: a trigger writes that. */
const updateRequest = statement((given: Given<Values<"jobs", "seq" | (typeof replaced)[number]>>) =>
  query
    .updateTable("jobs")
    .set(assign(given, ...replaced))
    .where("seq", "=", given.seq)
    .where("status", "=", "queued"),
)

const deleteData = statement((given: Given<Values<"job_data", "job_seq">>) =>
  query.deleteFrom("job_data").where("job_seq", "=", given.jobSeq),
)

const deleteLabels = statement((given: Given<Values<"job_labels", "job_seq">>) =>
  query.deleteFrom("job_labels").where("job_seq", "=", given.jobSeq),
)

const insertKey = statement(
  (given: Given<Values<"replaced_keys", "key_id" | "idempotency_key" | "fingerprint" | "job_seq">>) =>
    query.insertInto("replaced_keys").values(assign(given, "key_id", "idempotency_key", "fingerprint", "job_seq")),
)

const replacedKey = statement((given: Given<Values<"replaced_keys", "key_id" | "idempotency_key">>) =>
  query
    .selectFrom("replaced_keys")
    .select(["job_seq as jobSeq", "fingerprint"])
    .where("key_id", "=", given.keyId)
    .where("idempotency_key", "=", given.idempotencyKey),
)

/** Writes the new request of a waiting job, and keeps the key that a caller gave to the one before. Returns the job as later reads will. */
export const replaceJob = (tx: Transaction, before: Job, judged: Job, laneId: number, priceId: number | null): Job => {
  const { fingerprint, id, idempotencyKey, keyId } = before
  const seq = tx.get(stateById, { id })?.seq
  if (seq === undefined) throw new TypeError(`${id} does not exist`)
  const { job, longRequest, row } = insertionOf(judged, priceId)
  if (!idempotencyKey.startsWith(keylessPrefix)) tx.run(insertKey, { keyId, idempotencyKey, fingerprint, jobSeq: seq })
  tx.run(deleteData, { jobSeq: seq })
  if (tx.run(updateRequest, { ...row, seq, laneId, waitedMs: job.waitedMs }) !== 1)
    throw new TypeError(`${id} cannot get another request`)
  if (longRequest !== null) tx.run(insertData, { jobSeq: seq, request: longRequest })
  tx.run(deleteLabels, { jobSeq: seq })
  for (const label of labelsOf(job.metadata)) tx.run(insertLabel, { label, jobSeq: seq })
  return job
}

/** Returns the job that an idempotency key is bound to, by its request or by one that was replaced. */
export const findBoundKey = (
  tx: Transaction,
  { idempotencyKey, keyId }: Pick<NewJob, "idempotencyKey" | "keyId">,
): BoundKey | undefined => {
  const key = { keyId, idempotencyKey }
  const row =
    tx.get(jobByIdempotencyKey, key) ??
    (idempotencyKey.startsWith(keylessPrefix) ? tx.get(jobByKeylessKey, key) : undefined)
  if (row !== undefined) return { job: jobOf(tx, row), fingerprint: row.fingerprint }
  const former = tx.get(replacedKey, key)
  const its = former && tx.get(jobBySeq, { seq: former.jobSeq })
  return its && { job: jobOf(tx, its), fingerprint: former.fingerprint }
}
