import { isError } from "@kiln/core/domain"

// The part of better-sqlite3 that this adapter uses. The package ships no types, and declaring them under its name would
// replace the types a program may already have for it.

export type SqlValue = string | number | null | Uint8Array

export interface RunResult {
  readonly changes: number
  readonly lastInsertRowid: number | bigint
}

export interface PreparedStatement {
  readonly reader: boolean
  readonly all: (values: ReadonlyArray<SqlValue>) => Array<unknown>
  readonly iterate: (values: ReadonlyArray<SqlValue>) => IterableIterator<unknown>
  readonly get: (values: ReadonlyArray<SqlValue>) => unknown
  readonly safeIntegers: (on: boolean) => this
  readonly run: (values: ReadonlyArray<SqlValue>) => RunResult
}

export interface SqliteDatabase {
  readonly open: boolean
  readonly inTransaction: boolean
  prepare(sql: string): PreparedStatement
  exec(sql: string): this
  pragma(source: string, options?: { readonly simple?: boolean }): unknown
  close(): this
}

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
