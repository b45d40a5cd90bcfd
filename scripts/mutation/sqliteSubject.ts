import { rmSync, mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import Sqlite from "better-sqlite3"
import { Effect } from "effect"
import { onTestFinished, vi } from "vitest"
import { sqliteMigrations, SqliteStores } from "@kiln/adapter-sqlite"
import type { PreparedStatement } from "../../packages/adapter-sqlite/src/SqliteDatabase.ts"
import { PreparedStatements } from "../../packages/adapter-sqlite/src/Transaction.ts"
import { temporaryFile } from "../../packages/adapter-sqlite/test/support/temporaryDirectory.ts"
import { statementName } from "./statementName.ts"
import { plantedTexts, type Subject } from "./Subject.ts"

/** The rows of a statement over a list, of which there is one for each length. */
const rows = /(\((?:\+\?(?:, )?)+\))(?:, \1)+/

/** Statements are replaced where they are prepared: each opening of a store prepares its own. */
export const sqliteSubject = async (names: ReadonlyArray<string>): Promise<Subject> => {
  const [nameOf, texts] = [new Map<string, string>(), new Map<string, string>()]
  let reached = new Set<string>()
  let planted = plantedTexts([])
  const get: (this: PreparedStatements, text: string) => PreparedStatement = Reflect.get(
    PreparedStatements.prototype,
    "get",
  )
  vi.spyOn(PreparedStatements.prototype, "get").mockImplementation(function (this: PreparedStatements, text) {
    const [all = "", row = ""] = rows.exec(text) ?? []
    const ofOne = text.replace(all, row)
    let name = nameOf.get(ofOne)
    if (name === undefined) {
      name = statementName("adapter-sqlite", ofOne)
      nameOf.set(ofOne, name)
      if (names.includes(name.split(" ")[0] ?? "")) texts.set(name, ofOne)
    }
    reached.add(name)
    return get.call(this, planted.get(name)?.by.replace(row, () => all) ?? text)
  })
  const directory = mkdtempSync(join(tmpdir(), "kiln-mutation-"))
  const path = join(directory, "kiln.db")
  await Effect.runPromise(sqliteMigrations.apply({ path }))
  const database = new Sqlite(path)
  onTestFinished(() => {
    database.close()
    rmSync(directory, { recursive: true })
  })
  return {
    place: Effect.map(temporaryFile, (file) => SqliteStores.layer({ path: file })),
    texts: () => texts,
    reached: () => {
      const now = reached
      reached = new Set()
      return now
    },
    plant: async (next) => {
      planted = plantedTexts(next)
      try {
        for (const { by } of planted.values()) database.prepare(by)
        return true
      } catch {
        return false
      }
    },
    isInvalid: () => false,
  }
}
