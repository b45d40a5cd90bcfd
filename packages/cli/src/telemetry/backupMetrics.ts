import * as Effect from "effect/Effect"
import { AuditLog } from "@kiln/core/ports"
import { gauge } from "./series.ts"

const last = gauge(
  "kiln_backup_last_timestamp_seconds",
  "Time of the last kiln backup of this installation, in Unix seconds; 0 without one. Use max",
)

/** Milliseconds for which a look into the audit log is good. */
const goodForMs = 60_000
const pageSize = 200
/** Pages that a look reads at most: an installation with more changes since its last backup has a different problem. */
const mostPages = 50

/** Returns the effect that sets the gauge from the audit log, which records each backup. */
export const backupMeasurement = Effect.gen(function* () {
  const log = yield* AuditLog
  const find = Effect.gen(function* () {
    let after: number | null = null
    for (let page = 0; page < mostPages; page++) {
      const entries: ReadonlyArray<{ readonly action: string; readonly at: number; readonly number: number }> =
        yield* log.list({ from: 0, to: Number.MAX_SAFE_INTEGER, after, limit: pageSize })
      const backup = entries.find(({ action }) => action === "backup.create")
      if (backup !== undefined) return backup.at
      after = entries.at(-1)?.number ?? null
      if (entries.length < pageSize) break
    }
    return 0
  })
  return yield* Effect.cachedWithTTL(
    find.pipe(
      Effect.map((at) => last.record([], at / 1_000)),
      Effect.catchCause((cause) => Effect.logDebug("could not read when the last backup was made", cause)),
    ),
    goodForMs,
  )
})
