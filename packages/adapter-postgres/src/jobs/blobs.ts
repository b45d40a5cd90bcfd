import { type RawBuilder, sql } from "kysely"
import { type JobId, jobOrphanReason } from "@kiln/core/domain"
import type { Orphan } from "@kiln/core/ports"
import { namedBlobs } from "@kiln/sql-store"
import type { Session } from "../Session.ts"
import { batchStatement, integer, query, text } from "../Statement.ts"

/** A job's token is in `queue` while it is unfinished, and in `results` afterwards. */
const facts = batchStatement({ blobKey: text(), jobId: text<JobId>(), token: integer() }, (item) =>
  query
    .selectFrom(item)
    .leftJoin("jobs", "jobs.id", "item.jobId")
    .leftJoin("queue", "queue.id", "jobs.id")
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .leftJoin("files", (on) => on.onRef("files.job_seq", "=", "jobs.seq").onRef("files.blob_key", "=", "item.blobKey"))
    .select([
      "item.blobKey",
      "item.token",
      "jobs.seq",
      "queue.token as queueToken",
      "results.token as finalToken",
      "files.seq as fileSeq",
    ])
    .orderBy("item.ord"),
)

/** Applies the domain's rule, `jobOrphanReason`. */
export const findOrphans = async (
  session: Session,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): Promise<ReadonlyArray<Orphan>> =>
  (await session.batch(facts, blobs)).flatMap(({ blobKey, fileSeq, finalToken, queueToken, seq, token }) => {
    const job = seq === null ? undefined : { finished: queueToken === null, token: queueToken ?? finalToken ?? 0 }
    const reason = jobOrphanReason(job, { token, named: fileSeq !== null })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

const resultOfFile = (condition: RawBuilder<boolean>) =>
  sql<boolean>`exists (select from "kiln".results as result
    where result.job_seq = files.job_seq and result.retained = 'kept' and ${condition})`

/** Files that callers can still read are those of done jobs. */
export const named = namedBlobs(resultOfFile(sql<boolean>`result.status = 'done'`), resultOfFile(sql<boolean>`true`))
