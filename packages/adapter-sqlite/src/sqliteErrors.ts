import { isError } from "@kiln/core/domain"

/** SQLite's extended result code, for example `SQLITE_BUSY_SNAPSHOT`; `undefined` for what SQLite did not say. */
export const sqliteCode = (error: unknown): string | undefined =>
  isError(error) && "code" in error && typeof error.code === "string" && error.code.startsWith("SQLITE_")
    ? error.code
    : undefined

/** Another connection is in the way: trying again helps. */
export const isBusy = (code: string): boolean => /^SQLITE_(BUSY|LOCKED)/.test(code)

/** The statement itself is wrong, or breaks an invariant: a defect of ours, which trying again does not cure. */
export const isDefect = (code: string): boolean => /^SQLITE_(CONSTRAINT|ERROR|MISMATCH|MISUSE|RANGE|TOOBIG)/.test(code)

/** The file's pages contradict each other. What else is stored may well be fine. */
export const isCorrupt = (error: unknown): boolean => sqliteCode(error)?.startsWith("SQLITE_CORRUPT") === true
