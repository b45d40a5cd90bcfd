/** The part of better-sqlite3 this adapter uses; the package ships no types of its own. */
declare module "better-sqlite3" {
  export type SqlValue = string | number | null | Uint8Array

  export interface PreparedStatement {
    readonly reader: boolean
    readonly all: (values: ReadonlyArray<SqlValue>) => Array<unknown>
    readonly iterate: (values: ReadonlyArray<SqlValue>) => IterableIterator<unknown>
    readonly get: (values: ReadonlyArray<SqlValue>) => unknown
    readonly safeIntegers: (on: boolean) => this
    readonly run: (values: ReadonlyArray<SqlValue>) => { readonly changes: number; readonly lastInsertRowid: number | bigint }
  }

  export default class SqliteDatabase {
    constructor(path: string, options?: { readonly timeout?: number; readonly readonly?: boolean })
    readonly open: boolean
    readonly inTransaction: boolean
    prepare(sql: string): PreparedStatement
    exec(sql: string): this
    pragma(source: string, options?: { readonly simple?: boolean }): unknown
    close(): this
  }
}
