import type { Migration } from "@kiln/core/ports"
import { acceptJob } from "./acceptJobs/acceptJob.ts"
import { acceptJobs } from "./acceptJobs/acceptJobs.ts"
import { callersJobs } from "./acceptJobs/callersJobs.ts"
import { spendBounds } from "./acceptJobs/spendBounds.ts"

/**
 * Caps in the statement that creates. Jobs are numbered by one sequence, which also shows numbers that are not committed. So a process that
 * has counted a project's unfinished jobs once knows an upper bound later: as many more as numbers were given since, whoever took them. While
 * that is within the cap, creators share a lock and count nothing. Otherwise one of them holds the lock alone and counts.
 *
 * `create_job` and `create_jobs` stay for processes of the previous version: they count under the same lock, alone, and their jobs have
 * numbers too.
 */
export const acceptingJobs: Migration = {
  name: "0010AcceptJobs",
  sql: spendBounds + acceptJob + acceptJobs + callersJobs,
}
