import * as Effect from "effect/Effect"
import { childLabel, stepLabel } from "../domain/Child.ts"
import type { JobId, JobStatus, StoreUnavailable } from "../domain/index.ts"
import { type Progress, progressOfChildren } from "../domain/Progress.ts"
import type { JobDirectory } from "../ports/index.ts"

/** Jobs in one page of a list. */
const pageSize = 500

type Directory = JobDirectory["Service"]

/** The ids of the jobs that have a label, page by page. */
export const idsOfLabel = Effect.fnUntraced(function* (
  directory: Directory,
  label: string,
  status?: JobStatus,
): Effect.fn.Return<ReadonlyArray<JobId>, StoreUnavailable> {
  const ids: Array<JobId> = []
  let after: string | undefined
  do {
    const page = yield* directory.listJobs({ labels: [label], status, limit: pageSize, after })
    ids.push(...page.jobs.map(({ id }) => id))
    after = page.next
  } while (after !== undefined)
  return ids
})

/** The unfinished children of a job, of all its steps: those that never began, and the others. */
export const unfinishedChildren = (directory: Directory, jobId: JobId) =>
  Effect.all({
    queued: idsOfLabel(directory, childLabel(jobId), "queued"),
    begun: idsOfLabel(directory, childLabel(jobId), "processing"),
  })

const unfinished: ReadonlySet<string> = new Set(["queued", "delayed", "processing"])

/** Returns the progress of a job. That of one that waits for its children, and reported none itself, is counted: "7 of 20". */
export const countedProgress = (
  directory: JobDirectory["Service"] | undefined,
  jobId: JobId,
  progress: Progress | null,
): Effect.Effect<Progress | null, StoreUnavailable> => {
  if (progress?.children === undefined || directory === undefined) return Effect.succeed(progress)
  const { step, total } = progress.children
  return Effect.map(directory.countJobs({ finishedWithinMs: 0, labels: [stepLabel({ jobId, step })] }), (counts) =>
    progressOfChildren(
      total,
      counts.reduce((sum, { count, status }) => (unfinished.has(status) ? sum + count : sum), 0),
    ),
  )
}
