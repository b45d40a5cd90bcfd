import type { Job, JobId } from "@kiln/core/domain"
import { jobOf, jobsById } from "../JobRow.ts"
import type { Session } from "../Session.ts"

/** Whosever they are: for the operator. */
export const readJobs = async (
  session: Session,
  jobIds: ReadonlyArray<JobId>,
): Promise<ReadonlyArray<Job | undefined>> => {
  const rows = await session.batch(
    jobsById,
    jobIds.map((id) => ({ id })),
    {},
  )
  const jobs = new Map(rows.map((row) => [row.id, jobOf(row)]))
  return jobIds.map((id) => jobs.get(id))
}
