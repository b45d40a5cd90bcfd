import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Database } from "./Database.ts"

/** Minimum time between two truncations. */
const intervalMs = 2_000

/**
 * `secure_delete` overwrites erased content in the database file, but the write-ahead log still holds earlier versions of the
 * pages. So the log is copied into the database and truncated at startup, in case a crash interrupted this, and after erasures,
 * at most every two seconds. If a reader in another process prevents it, it is retried.
 */
export const truncateLogAfterErasures = (database: Database): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    if (!truncateLog(database)) database.erasures.openUnsafe()
    while (true) {
      yield* database.erasures.await
      database.erasures.closeUnsafe()
      if (!truncateLog(database)) database.erasures.openUnsafe()
      yield* Effect.sleep(intervalMs)
    }
  }).pipe(Effect.forkScoped, Effect.asVoid)

/** Returns whether the log is now empty. */
export const truncateLog = ({ connection }: Database): boolean => {
  try {
    const [outcome] = connection.pragma("wal_checkpoint(TRUNCATE)") as ReadonlyArray<{ readonly busy: number }>
    return outcome?.busy === 0
  } catch {
    // Best effort: the verbs report problems of the store.
    return false
  }
}
