import type { Job, JobId, Principal } from "@kiln/core/domain"
import { jobOf, jobsByOwner } from "../JobRow.ts"
import type { Session } from "../Session.ts"

/** In one statement, so that a job is never shown with the files of another moment. */
export const findJobs = async (
  session: Session,
  items: ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>,
): Promise<ReadonlyArray<Job | undefined>> => {
  const owned = items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => ({ id, keyId, mode, projectId }))
  const rows = new Map((await session.batch(jobsByOwner, owned, {})).map((row) => [row.ord, row]))
  return items.map((_, index) => {
    const row = rows.get(index + 1)
    return row && jobOf(row)
  })
}
