import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import type { Installation } from "./installations.ts"

/** Copies a SQLite database as a backup tool does, also while a server runs on it. */
export const copySqlite = (from: string, to: string): void => {
  mkdirSync(to, { recursive: true })
  const database = new DatabaseSync(join(from, "kiln.db"))
  database.prepare("VACUUM INTO ?").run(join(to, "kiln.db"))
  database.close()
}

/** A copy of an installation's database, with a data directory of its own. */
export interface DatabaseCopy extends AsyncDisposable {
  readonly env: Readonly<Record<string, string>>
  readonly directory: string
}

/** Copies the database of an installation on which no process runs. The files stay where they are. */
export const copyOf = async ({ directory, env }: Installation): Promise<DatabaseCopy> => {
  const data = temporaryDirectory()
  const { DATABASE_URL: url } = env
  if (url === undefined) {
    copySqlite(directory, data.path)
    return {
      env: { KILN_DATA_DIR: data.path },
      directory: data.path,
      [Symbol.asyncDispose]: async () => void data[Symbol.dispose](),
    }
  }
  const database = await freshDatabase({ template: new URL(url).pathname.slice(1) })
  return {
    env: { KILN_DATA_DIR: data.path, DATABASE_URL: database.url },
    directory: data.path,
    [Symbol.asyncDispose]: async () => {
      data[Symbol.dispose]()
      await database[Symbol.asyncDispose]()
    },
  }
}
