import { DatabaseSync } from "node:sqlite"

/** Runs SQL on a data directory's database, behind kiln's back. */
export const changeDatabase = (dataDirectory: string, sql: string): void => {
  const database = new DatabaseSync(`${dataDirectory}/kiln.db`)
  database.exec(sql)
  database.close()
}
