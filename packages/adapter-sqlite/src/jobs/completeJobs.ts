import { applyEvent, isRepeatedEnd } from "@kiln/core/domain"
import type { Completion, FencedOutcome } from "@kiln/core/ports"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById, stateOf } from "./JobRow.ts"

type Done = Values<
  "jobs",
  "seq" | "token" | "ran_ms" | "waited_ms" | "finished_at" | "output" | "warning_code" | "charge"
> & { readonly fromToken: number }

/**
 * Writes status, output and charge in one statement, because a CHECK compares them. A trigger on it writes the charge to the ledger.
 * The fence is in the WHERE.
 */
const finishDone = statement((given: Given<Done>) =>
  query
    .updateTable("jobs")
    .set({
      status: "done",
      held: 0,
      claimable_at: null,
      deadline_at: null,
      phase_started_at: null,
      ...assign(given, "token", "ran_ms", "waited_ms", "finished_at", "output", "warning_code", "charge"),
    })
    .where("seq", "=", given.seq)
    .where("status", "=", "processing")
    .where("held", "=", 1)
    .where("token", "=", given.fromToken),
)

const insertFile = statement(
  (given: Given<Values<"files", "id" | "job_seq" | "name" | "blob_key" | "media_type" | "bytes" | "sha256">>) =>
    query
      .insertInto("files")
      .values(assign(given, "id", "job_seq", "name", "blob_key", "media_type", "bytes", "sha256")),
)

export const completeJobs = (tx: Transaction, items: ReadonlyArray<Completion>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => completeJob(tx, item))

const completeJob = (
  tx: Transaction,
  { charge, files, jobId, output, token, warningCode }: Completion,
): FencedOutcome => {
  const job = tx.get(stateById, { id: jobId })
  if (job === undefined) return "LeaseLost"
  const state = stateOf(job)
  const end = { event: "completed", token } as const
  const done = applyEvent(state, end, tx.now)
  // A repeat writes nothing: the first call wrote everything, and its data may have been erased since.
  if (done === undefined) return isRepeatedEnd(state, end) ? "Written" : "LeaseLost"
  if ((job.mode === "live") !== (charge !== null))
    throw new TypeError(`a ${job.mode} job completes ${charge === null ? "with" : "without"} a charge: ${job.id}`)
  const written = tx.run(finishDone, {
    seq: job.seq,
    fromToken: token,
    token: done.token,
    ranMs: done.ranMs,
    waitedMs: done.waitedMs,
    finishedAt: tx.now,
    output: JSON.stringify(output),
    warningCode,
    charge: charge === null ? null : JSON.stringify(charge),
  })
  if (written === 0) return "LeaseLost"
  for (const { blobKey, bytes, id, mediaType, name, sha256 } of files)
    tx.run(insertFile, { id, jobSeq: job.seq, name, blobKey, mediaType, bytes, sha256 })
  return "Written"
}
