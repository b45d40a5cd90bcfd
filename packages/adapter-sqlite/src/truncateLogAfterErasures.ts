import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Database } from "./Database.ts"

/** Milliseconds between two truncations. */
const intervalMs = 2_000

/**
 * `secure_delete` overwrites erased content in the database file, but the write-ahead log still
 * holds the pages as they were before. At the start, for what a crash interrupted, and after erasures,
 * at most every two seconds, the log is copied into the database and cut to nothing. Where a reader
 * in another process prevents it, it is tried again.
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

/** Whether the log is empty now. */
const truncateLog = ({ connection }: Database): boolean => {
  try {
    const [outcome] = connection.pragma("wal_checkpoint(TRUNCATE)") as ReadonlyArray<{ readonly busy: number }>
    return outcome?.busy === 0
  } catch {
    // Nothing depends on it now: the verbs report what is wrong with the store.
    return false
  }
}
