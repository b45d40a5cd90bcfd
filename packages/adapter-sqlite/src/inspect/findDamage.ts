import { isError } from "@kiln/core/domain"
import type { SqliteDatabase } from "../SqliteDatabase.ts"
import { isCorrupt } from "../sqliteErrors.ts"

interface BrokenReference {
  readonly table: string
  readonly rowid: number | null
  readonly parent: string
}

/** As many findings of each check as a person reads. */
const mostFindings = 100

/** Has SQLite check every page, index and constraint, and every reference between rows. What it says names no content. */
export const findDamage = (connection: SqliteDatabase): ReadonlyArray<string> => {
  try {
    const pages = connection.pragma(`integrity_check(${mostFindings})`) as ReadonlyArray<{
      readonly integrity_check: string
    }>
    const references = connection.pragma("foreign_key_check") as ReadonlyArray<BrokenReference>
    return [
      ...pages.map((row) => row.integrity_check).filter((line) => line !== "ok"),
      ...references
        .slice(0, mostFindings)
        .map(
          ({ parent, rowid, table }) =>
            `row ${rowid ?? "?"} of ${table} refers to a row of ${parent} that is not there`,
        ),
    ]
  } catch (error) {
    // So damaged that even the check could not read on.
    if (isError(error) && isCorrupt(error)) return [error.message]
    throw error
  }
}
