import type { Database } from "../../src/Database.ts"

/** The file of an open database. */
export const pathOf = ({ connection }: Database): string => {
  const [main] = connection.pragma("database_list") as ReadonlyArray<{ readonly file: string }>
  return main?.file ?? ""
}
