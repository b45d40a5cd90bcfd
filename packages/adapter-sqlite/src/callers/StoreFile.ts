import { realpathSync } from "node:fs"
import type { Database } from "../Database.ts"

/** The file of a connection, from its `PRAGMA database_list`; empty for a database in memory. */
const mainFileOf = (databases: unknown): string => {
  const rows = databases as ReadonlyArray<{ readonly name: string; readonly file: string | null }>
  return rows.find(({ name }) => name === "main")?.file ?? ""
}

const realPathOf = (file: string): string | undefined => {
  try {
    return file === "" ? undefined : realpathSync(file)
  } catch {
    return undefined
  }
}

/** The store's own file, which is compared with others by its real path. */
export class StoreFile {
  readonly #file: string
  readonly #same = new Set<string>()

  constructor({ connection }: Pick<Database, "connection">) {
    this.#file = mainFileOf(connection.pragma("database_list"))
    this.#same.add(this.#file)
  }

  /** Takes the result of `PRAGMA database_list` on another connection. Throws `TypeError` unless it has the same file open. */
  expectSame(databases: unknown): void {
    const file = mainFileOf(databases)
    if (this.#same.has(file)) return
    const path = realPathOf(file)
    if (path === undefined || path !== realPathOf(this.#file))
      throw new TypeError("the transaction must be on the database file of the store")
    this.#same.add(file)
  }
}
