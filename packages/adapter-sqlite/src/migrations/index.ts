import type { Migration } from "@kiln/core/ports"
import { initial } from "./0001Initial.ts"
import { kindVersions } from "./0002KindVersions.ts"
import { ledgerAndStandings } from "./0003LedgerAndStandings.ts"
import { operatingVerbs } from "./0004OperatingVerbs.ts"
import { blobLineage } from "./0005BlobLineage.ts"
import { servedKindsAndUploadCaps } from "./0006ServedKindsAndUploadCaps.ts"
import { timeKeeping } from "./0007TimeKeeping.ts"

/**
 * In order, each applied once. They only ever add: processes of the version before run beside the
 * new one while it is rolled out. One that was released never changes.
 */
export const migrations: ReadonlyArray<Migration> = [
  initial,
  kindVersions,
  ledgerAndStandings,
  operatingVerbs,
  blobLineage,
  servedKindsAndUploadCaps,
  timeKeeping,
]
