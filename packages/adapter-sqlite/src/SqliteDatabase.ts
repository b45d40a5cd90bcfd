// The part of better-sqlite3 this adapter uses. The package ships no types of its own, and to declare some in its name would
// be to replace those a program has for it.

export type SqlValue = string | number | null | Uint8Array

export interface PreparedStatement {
  readonly reader: boolean
  readonly all: (values: ReadonlyArray<SqlValue>) => Array<unknown>
  readonly iterate: (values: ReadonlyArray<SqlValue>) => IterableIterator<unknown>
  readonly get: (values: ReadonlyArray<SqlValue>) => unknown
  readonly safeIntegers: (on: boolean) => this
  readonly run: (values: ReadonlyArray<SqlValue>) => {
    readonly changes: number
    readonly lastInsertRowid: number | bigint
  }
}

export interface SqliteDatabase {
  readonly open: boolean
  readonly inTransaction: boolean
  prepare(sql: string): PreparedStatement
  exec(sql: string): this
  pragma(source: string, options?: { readonly simple?: boolean }): unknown
  close(): this
}
