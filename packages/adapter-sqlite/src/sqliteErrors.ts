import { isError } from "@kiln/core/domain"

/** Returns SQLite's extended result code, for example `SQLITE_BUSY_SNAPSHOT`, or `undefined` for other errors. */
export const sqliteCode = (error: unknown): string | undefined =>
  isError(error) && "code" in error && typeof error.code === "string" && error.code.startsWith("SQLITE_")
    ? error.code
    : undefined

/** Whether another connection holds a lock, so that a retry may succeed. */
export const isBusy = (code: string): boolean => /^SQLITE_(BUSY|LOCKED)/.test(code)

/** Whether the statement itself is wrong or violates an invariant: a defect that a retry does not fix. */
export const isDefect = (code: string): boolean => /^SQLITE_(CONSTRAINT|ERROR|MISMATCH|MISUSE|RANGE|TOOBIG)/.test(code)

/** Whether pages of the file are corrupt. Other pages may be intact. */
export const isCorrupt = (error: unknown): boolean => sqliteCode(error)?.startsWith("SQLITE_CORRUPT") === true
