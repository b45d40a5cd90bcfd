import type { Migration } from "@kiln/core/ports"
import { initial } from "./0001Initial.ts"
import { ledgerAndStandings } from "./0002LedgerAndStandings.ts"
import { prioritiesAndRetries } from "./0003PrioritiesAndRetries.ts"
import { blobLineage } from "./0004BlobLineage.ts"
import { servedKindsAndUploadCaps } from "./0005ServedKindsAndUploadCaps.ts"
import { closedLedger } from "./0006ClosedLedger.ts"

/**
 * In order, each applied once. They only ever add: processes of the version before run beside the
 * new one while it is rolled out. One that was released never changes.
 */
export const migrations: ReadonlyArray<Migration> = [
  initial,
  ledgerAndStandings,
  prioritiesAndRetries,
  blobLineage,
  servedKindsAndUploadCaps,
  closedLedger,
]
