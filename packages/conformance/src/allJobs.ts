import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { JobDirectory, type JobPage, type JobSummary } from "@kiln/core/ports"

/** Collects the jobs of all pages; the store decides how much one page holds. */
export const allJobs = Effect.fnUntraced(function* (
  page: JobPage,
): Effect.fn.Return<ReadonlyArray<JobSummary>, StoreUnavailable, JobDirectory> {
  const directory = yield* JobDirectory
  const jobs: Array<JobSummary> = []
  let after: string | undefined
  do {
    const list = yield* directory.listJobs({ ...page, after })
    if (list.jobs.length > page.limit) throw new Error(`a page of ${list.jobs.length} jobs`)
    if (list.next !== undefined && list.next === after) throw new Error("the cursor of a page leads to the same page")
    jobs.push(...list.jobs)
    after = list.next
  } while (after !== undefined)
  return jobs
})
