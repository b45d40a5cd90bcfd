/** How a database is opened; it never leaves the sources, where what is opened has a type of our own. */
declare module "better-sqlite3" {
  // An ambient module cannot import from a relative path in any other way.
  // oxlint-disable-next-line typescript/consistent-type-imports
  type Described = import("./SqliteDatabase.ts").SqliteDatabase
  interface SqliteDatabase extends Described {}
  const SqliteDatabase: {
    new (path: string, options?: { readonly timeout?: number; readonly readonly?: boolean }): SqliteDatabase
    readonly prototype: SqliteDatabase
  }
  export default SqliteDatabase
}
