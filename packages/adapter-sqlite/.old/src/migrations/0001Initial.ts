import type { Migration } from "@kiln/core/ports"
import { accessTables } from "./initial/access.ts"
import { boardTables } from "./initial/board.ts"
import { jobTables } from "./initial/jobs.ts"
import { jobTriggers } from "./initial/jobTriggers.ts"
import { uploadTables } from "./initial/uploads.ts"

export const initial: Migration = {
  name: "0001Initial",
  sql: boardTables + accessTables + jobTables + jobTriggers + uploadTables,
}
