import { holdsClaim, type JobId } from "@kiln/core/domain"
import type { Checkpoint, FencedOutcome } from "@kiln/core/ports"
import type { StateRow } from "./jobRow.ts"
import type { Transaction } from "../connection/Session.ts"
import { batchStatement, excluded, query, text } from "../Statement.ts"

/** A checkpoint of the same step is replaced. */
const keepSteps = batchStatement({ id: text<JobId>(), step: text(), value: text() }, (item) =>
  query
    .insertInto("checkpoints")
    .columns(["job_id", "step", "value"])
    .expression(query.selectFrom(item).select(["item.id", "item.step", "item.value"]))
    .onConflict((conflict) => conflict.columns(["job_id", "step"]).doUpdateSet(excluded("value"))),
)

/** Keeps checkpoints of jobs that are locked until the end of the transaction. */
export const checkpointJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Checkpoint>,
  locked: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const jobs = new Map(locked.map((job) => [job.id, job]))
  // If a step occurs twice in the batch, the last one stays, as in two calls.
  const steps = new Map<string, { readonly id: JobId; readonly step: string; readonly value: string }>()
  const outcomes = items.map(({ jobId: id, step, token, value }): FencedOutcome => {
    const job = jobs.get(id)
    if (job === undefined || !holdsClaim(job, token)) return "LeaseLost"
    steps.set(JSON.stringify([id, step]), { id, step, value: JSON.stringify(value) })
    return "Written"
  })
  tx.commitWith(tx.runBatch(keepSteps, [...steps.values()]))
  return outcomes
}
