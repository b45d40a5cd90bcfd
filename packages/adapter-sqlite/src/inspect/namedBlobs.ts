import { type RawBuilder, sql } from "kysely"
import { namedBlobs } from "@kiln/sql-store"

const jobOfFile = (condition: RawBuilder<boolean>) =>
  sql<boolean>`EXISTS (SELECT 1 FROM kiln_jobs AS job WHERE job.seq = kiln_files.job_seq AND job.retained = 'kept' AND ${condition})`

/** Files that callers can still read are those of done jobs. */
export const { isNamed, listNamedBlobs } = namedBlobs(
  jobOfFile(sql<boolean>`job.status = 'done'`),
  jobOfFile(sql<boolean>`true`),
)
