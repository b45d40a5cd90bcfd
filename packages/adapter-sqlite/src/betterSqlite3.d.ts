/** Options for opening a database. Not exported: outside of this package, databases have the type `SqliteDatabase`. */
declare module "better-sqlite3" {
  // An ambient module has no other way to import from a relative path.
  // oxlint-disable-next-line typescript/consistent-type-imports
  type Described = import("./SqliteDatabase.ts").SqliteDatabase
  interface SqliteDatabase extends Described {}
  const SqliteDatabase: {
    new (path: string, options?: { readonly timeout?: number; readonly readonly?: boolean }): SqliteDatabase
    readonly prototype: SqliteDatabase
  }
  export default SqliteDatabase
}
