import { type JobId, jobOrphanReason } from "@kiln/core/domain"
import type { Orphan } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/** A job's token stands in `queue` while it is unfinished, and in its own row afterwards. */
const facts = batchStatement<
  { blobKey: string; jobId: JobId; token: number },
  {},
  {
    readonly blobKey: string
    readonly token: number
    readonly seq: number | null
    readonly queueToken: number | null
    readonly finalToken: number | null
    readonly fileSeq: number | null
  }
>({ blobKey: "text", jobId: "text", token: "bigint" }, (item) =>
  query
    .selectFrom(item)
    .leftJoin("jobs", "jobs.id", "item.jobId")
    .leftJoin("queue", "queue.job_seq", "jobs.seq")
    .leftJoin("files", (on) => on.onRef("files.job_seq", "=", "jobs.seq").onRef("files.blob_key", "=", "item.blobKey"))
    .select([
      "item.blobKey",
      "item.token",
      "jobs.seq",
      "queue.token as queueToken",
      "jobs.token as finalToken",
      "files.seq as fileSeq",
    ])
    .orderBy("item.ord"),
)

/** The rule is the domain's: `jobOrphanReason`. */
export const findOrphans = async (
  session: Session,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): Promise<ReadonlyArray<Orphan>> =>
  (await session.batch(facts, blobs, {})).flatMap(({ blobKey, fileSeq, finalToken, queueToken, seq, token }) => {
    const job = seq === null ? undefined : { finished: queueToken === null, token: queueToken ?? finalToken ?? 0 }
    const reason = jobOrphanReason(job, { token, named: fileSeq !== null })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })
