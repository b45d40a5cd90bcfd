import { resolve } from "node:path"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/** Parses a SQLite file in commands: `sqlite:data/kiln.db`. Returns the absolute path. */
export const sqliteFile: SettingType<string> = (text) => {
  const [, path = ""] = /^sqlite:(?:\/\/(?=\/))?(.*)$/s.exec(text) ?? []
  return path === ""
    ? broken("must be sqlite: and the path of the database file, like sqlite:./data/kiln.db")
    : parsed(resolve(path))
}
