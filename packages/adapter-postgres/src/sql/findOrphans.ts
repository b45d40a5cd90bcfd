import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/**
 * A finished job's blob is an orphan unless a file names it; an unfinished one's unless its token is
 * the job's present one. Every end of a claim raises the token, so an older one can never commit.
 */
const orphans = batchStatement<{ blobKey: string; jobId: JobId; token: number }, {}, { readonly blobKey: string }>(
  { blobKey: "text", jobId: "text", token: "bigint" },
  (item) =>
    query
      .selectFrom(item)
      .leftJoin("jobs", "jobs.id", "item.jobId")
      .leftJoin("queue", "queue.job_seq", "jobs.seq")
      .select("item.blobKey")
      .where((where) =>
        where.and([
          where.not(
            where.exists(
              where
                .selectFrom("files")
                .select("files.seq")
                .whereRef("files.job_seq", "=", "jobs.seq")
                .whereRef("files.blob_key", "=", "item.blobKey"),
            ),
          ),
          sql<boolean>`${sql.ref("queue.token")} is distinct from ${sql.ref("item.token")}`,
        ]),
      )
      .orderBy("item.ord"),
)

export const findOrphans = async (
  session: Session,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): Promise<ReadonlyArray<string>> => (await session.batch(orphans, blobs, {})).map(({ blobKey }) => blobKey)
