import { type Job, type JobId, labelsOf } from "@kiln/core/domain"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { jobOf, selectJobs } from "./JobRow.ts"
import type { NewJob } from "@kiln/core/ports"

export const insertLabel = statement((given: Given<Values<"job_labels", "label" | "job_seq">>) =>
  query.insertInto("job_labels").values(assign(given, "label", "job_seq")),
)

const takeScope = statement((given: Given<Values<"job_scopes", "scope" | "job_seq">>) =>
  query
    .insertInto("job_scopes")
    .values(assign(given, "scope", "job_seq"))
    .onConflict((conflict) => conflict.column("scope").doUpdateSet({ job_seq: given.jobSeq })),
)

/** A retry takes over the scope of the failed job, if that still has it. */
const inheritScope = statement((given: Given<Values<"job_scopes", "job_seq"> & { readonly failed: JobId }>) =>
  query
    .updateTable("job_scopes")
    .set({ job_seq: given.jobSeq })
    .where("job_seq", "=", query.selectFrom("jobs").select("seq").where("id", "=", given.failed)),
)

const scopeHolder = statement((given: Given<Values<"job_scopes", "scope">>) =>
  selectJobs.where(
    "jobs.seq",
    "=",
    query.selectFrom("job_scopes").select("job_scopes.job_seq").where("scope", "=", given.scope),
  ),
)

/** The job that took a scope last. */
export const findScopeHolder = (tx: Transaction, unique: NewJob["unique"]): Job | undefined => {
  const row = unique && tx.get(scopeHolder, { scope: unique.scope })
  return row && jobOf(tx, row)
}

/** Writes what a new job is found by, besides its id and its key. */
export const writeLabels = (
  tx: Transaction,
  jobSeq: number,
  { metadata }: Job,
  { retryOf, unique }: { readonly retryOf: JobId | null; readonly unique?: NewJob["unique"] },
): void => {
  for (const label of labelsOf(metadata)) tx.run(insertLabel, { label, jobSeq })
  if (unique !== undefined) tx.run(takeScope, { scope: unique.scope, jobSeq })
  if (retryOf !== null) tx.run(inheritScope, { jobSeq, failed: retryOf })
}
