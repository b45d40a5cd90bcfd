import * as Effect from "effect/Effect"
import { AuditLog } from "@kiln/core/ports"
import { databaseSilent } from "../startProblems.ts"

/** Milliseconds between two removals. Retention is counted in days. */
const everyMs = 3_600_000

/**
 * Removes entries of the audit log that are past their retention, at the start and once an hour. Only a service does: a command
 * may run with another environment, and must not remove what the service keeps.
 */
export const pruneAuditLog = (retentionMs: number): Effect.Effect<void, never, AuditLog> =>
  retentionMs === 0
    ? Effect.void
    : Effect.flatMap(AuditLog, (log) => log.prune(retentionMs)).pipe(
        Effect.catch((error) =>
          Effect.logWarning(`old entries of the audit log were not removed: ${databaseSilent(error).message}`),
        ),
        Effect.andThen(Effect.sleep(everyMs)),
        Effect.forever,
      )
