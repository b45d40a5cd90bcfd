import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { StoreInspection } from "@kiln/core/ports"
import { quoted } from "../programCommand.ts"
import type { Settings } from "../Settings.ts"
import { ageText, type Check, ok, skipped, warning } from "./Check.ts"

const name = "backups"

/** Checks the age of the last `kiln backup`, which the audit log records. An installation that is younger needs none yet. */
export const checkBackups = (
  store: StoreInspection,
  { backupAgeMs, database }: Settings,
): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    if (database._tag === "Postgres")
      return skipped(name, "not checked: a Postgres server has backups of its own (docs/guides/backup.md)")
    if (backupAgeMs === 0) return skipped(name, "not checked (KILN_BACKUP_AGE=0)")
    const now = Date.now()
    const last = yield* store.findLastChange("backup.create")
    if (last !== undefined) {
      const directory = last.subject ?? "DIR"
      const summary = `the last backup, in ${directory}, is ${ageText(now - last.at)} old`
      return now - last.at <= backupAgeMs
        ? ok(name, summary)
        : warning(name, {
            summary,
            remedy: `kiln backup ${last.subject === null ? "DIR" : quoted(directory)}, every night; find out why it stopped`,
          })
    }
    const firstKeyAt = Math.min(...(yield* store.listKeys).map(({ createdAt }) => createdAt))
    return now - firstKeyAt <= backupAgeMs
      ? ok(name, "none yet, which this new installation does not need")
      : warning(name, {
          summary: "kiln backup has never run",
          remedy: "kiln backup DIR, every night; set KILN_BACKUP_AGE=0 if another tool makes the backups",
        })
  })
