import { blobPrefixesOf, type JobId, type JobMode, type KeyId, type ProjectId } from "@kiln/core/domain"
import type { EraseOutcome, Erasure } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"
import { blankJobs, retentionColumns, type RetentionRow } from "./blankJobs.ts"
import { recordPurges, stillDue } from "./purges.ts"

/** Only their owner's; another's is as unknown as one that never was. The id picks the row, see `jobsByOwner`. */
const ownJobs = batchStatement<
  { id: JobId; projectId: ProjectId; keyId: KeyId; mode: JobMode },
  {},
  RetentionRow & { readonly ord: number; readonly status: "done" | "failed" | null }
>({ id: "text", projectId: "text", keyId: "text", mode: "text" }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) =>
      join
        .onRef("item.id", "=", "jobs.id")
        .onRef("item.projectId", "=", "jobs.project_id")
        .onRef("item.keyId", "is not distinct from", "jobs.key_id")
        .onRef("item.mode", "=", "jobs.mode"),
    )
    .select(retentionColumns)
    .select("item.ord")
    .orderBy("jobs.id")
    .forNoKeyUpdate("jobs"),
)

/**
 * Data that had expired by age is `AlreadyErased` for its first erasure on request: nothing was
 * left to delete. It says `data_deleted` from then on, since that is what its owner asked for.
 */
export const eraseJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Erasure>,
): Promise<ReadonlyArray<EraseOutcome>> => {
  const owned = new Map(
    (
      await tx.batch(
        ownJobs,
        items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => ({ id, projectId, keyId, mode })),
        {},
      )
    ).map((job) => [job.ord, job]),
  )
  const finished = new Map([...owned.values()].filter(({ status }) => status !== null).map((job) => [job.id, job]))
  const present = [...finished.values()].filter(({ retained }) => retained !== "deleted")
  await blankJobs(tx, present, "deleted")
  await recordPurges(tx, present.filter(({ retained }) => retained === "kept").flatMap(blobPrefixesOf))
  const due = new Set(
    (await stillDue(tx, [...finished.values()].flatMap(blobPrefixesOf))).map((purge) => purge.blobPrefix),
  )
  const erasedHere = new Set<JobId>()
  return items.map((_, index): EraseOutcome => {
    const job = owned.get(index + 1)
    if (job === undefined) return { _tag: "NotFound" }
    if (job.status === null) return { _tag: "Unfinished" }
    const purges = blobPrefixesOf(job).flatMap((blobPrefix) => (due.has(blobPrefix) ? [{ blobPrefix }] : []))
    const erased = job.retained === "kept" && !erasedHere.has(job.id)
    erasedHere.add(job.id)
    return { _tag: erased ? "Erased" : "AlreadyErased", purges }
  })
}
