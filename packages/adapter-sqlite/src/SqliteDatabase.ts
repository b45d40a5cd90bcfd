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
