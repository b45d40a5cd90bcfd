import { applyEvent, type FileId, isRepeatedEnd, type WarningCode } from "@kiln/core/domain"
import type { Completion, FencedOutcome } from "@kiln/core/ports"
import { stateOf, type StateRow } from "../JobRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { JsonText } from "../Tables.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById } from "./writeState.ts"

/**
 * The end of a job, with everything a CHECK wants to see in one row: status, output and charge. The
 * ledger's row is written by a trigger on this statement. The fence stands in the WHERE.
 */
const finishDone = statement(
  (
    given: Given<{
      seq: number
      token: number
      nextToken: number
      ranMs: number
      waitedMs: number
      now: number
      output: JsonText
      warningCode: WarningCode | null
      charge: JsonText | null
    }>,
  ) =>
    query
      .updateTable("jobs")
      .set({
        status: "done",
        held: 0,
        token: given.nextToken,
        claimable_at: null,
        deadline_at: null,
        phase_started_at: null,
        finished_at: given.now,
        ran_ms: given.ranMs,
        waited_ms: given.waitedMs,
        output: given.output,
        warning_code: given.warningCode,
        charge: given.charge,
      })
      .where("seq", "=", given.seq)
      .where("status", "=", "processing")
      .where("held", "=", 1)
      .where("token", "=", given.token),
)

const insertFile = statement(
  (
    given: Given<{
      id: FileId
      seq: number
      name: string
      blobKey: string
      mediaType: string
      bytes: number
      sha256: string
    }>,
  ) =>
    query.insertInto("files").values({
      id: given.id,
      job_seq: given.seq,
      name: given.name,
      blob_key: given.blobKey,
      media_type: given.mediaType,
      bytes: given.bytes,
      sha256: given.sha256,
    }),
)

export const completeJobs = (tx: Transaction, items: ReadonlyArray<Completion>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const job = tx.get(stateById, { id: item.jobId })
    return job === undefined ? "LeaseLost" : complete(tx, job, item)
  })

const complete = (
  tx: Transaction,
  job: StateRow,
  { charge, files, output, token, warningCode }: Completion,
): FencedOutcome => {
  const state = stateOf(job)
  const end = { event: "completed", token } as const
  const done = applyEvent(state, end, tx.now)
  // The first try of a repeat has written all there is to write; its data may be erased by now.
  if (done === undefined) return isRepeatedEnd(state, end) ? "Written" : "LeaseLost"
  if ((job.mode === "live") !== (charge !== null))
    throw new TypeError(`a ${job.mode} job completes ${charge === null ? "with" : "without"} a charge: ${job.id}`)
  const { ranMs, token: nextToken, waitedMs } = done
  const written = tx.run(finishDone, {
    seq: job.seq,
    token,
    nextToken,
    ranMs,
    waitedMs,
    now: tx.now,
    output: JSON.stringify(output),
    warningCode,
    charge: charge === null ? null : JSON.stringify(charge),
  })
  if (written === 0) return "LeaseLost"
  for (const { blobKey, bytes, id, mediaType, name, sha256 } of files)
    tx.run(insertFile, { id, seq: job.seq, name, blobKey, mediaType, bytes, sha256 })
  return "Written"
}
