import type { Migration } from "@kiln/core/ports"
import { accessTables, boardTables } from "./initial/accessAndBoard.ts"
import { attemptTables } from "./initial/attempts.ts"
import { auditTable } from "./initial/audit.ts"
import { deliveryTables } from "./initial/deliveries.ts"
import { jobTables } from "./initial/jobs.ts"
import { jobTriggers } from "./initial/jobTriggers.ts"
import { scheduleTables } from "./initial/schedules.ts"
import { spendingTables } from "./initial/spending.ts"
import { submittedTables } from "./initial/submitted.ts"
import { uploadTables } from "./initial/uploads.ts"

export const initial: Migration = {
  name: "0001Initial",
  sql:
    boardTables +
    accessTables +
    auditTable +
    jobTables +
    attemptTables +
    jobTriggers +
    uploadTables +
    spendingTables +
    scheduleTables +
    submittedTables +
    deliveryTables,
}
