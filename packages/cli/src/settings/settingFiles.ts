import { readFileSync } from "node:fs"
import { join } from "node:path"
import { causeMessage, codesOf } from "../CommandFailed.ts"

export type Environment = Readonly<Record<string, string | undefined>>

/** The source of a setting's text. */
export type SettingOrigin =
  | { readonly _tag: "Variable" }
  | { readonly _tag: "File"; readonly path: string; readonly by: string }

/** The text of a setting. */
export interface GivenSetting {
  readonly text: string
  readonly origin: SettingOrigin
}

export type FoundSetting =
  | { readonly ok: true; readonly given: GivenSetting | undefined }
  | { readonly ok: false; readonly setting: string; readonly rule: string }

/** Set by systemd for a unit with `LoadCredential=`. */
const credentials = "CREDENTIALS_DIRECTORY"

/** Compose files and shells turn an unset variable into an empty one. */
const textOf = (environment: Environment, name: string): string | undefined => environment[name]?.trim() || undefined

/** Reads a file without the line end that editors and `echo` add. `undefined` if it does not exist and is optional. */
const readText = (path: string, optional: boolean): string | undefined => {
  try {
    return readFileSync(path, "utf8").trim()
  } catch (cause) {
    if (optional && codesOf(cause).some((code) => code === "ENOENT" || code === "ENOTDIR")) return undefined
    throw cause
  }
}

const fromFile = (setting: string, by: string, path: string, optional: boolean): FoundSetting => {
  try {
    const text = readText(path, optional)
    if (text === "") return { ok: false, setting: by, rule: `names ${path}, which is empty` }
    return { ok: true, given: text === undefined ? undefined : { text, origin: { _tag: "File", path, by } } }
  } catch (cause) {
    return {
      ok: false,
      setting: by,
      rule: `names ${path}, which cannot be read for ${setting}: ${causeMessage(cause)}`,
    }
  }
}

/**
 * Finds the text of a setting: its variable, otherwise the file that `{setting}_FILE` names, otherwise the file of its name in
 * `$CREDENTIALS_DIRECTORY`. Secrets in files are not inherited by child processes and do not appear in `/proc`.
 */
export const findSetting = (environment: Environment, setting: string): FoundSetting => {
  const text = textOf(environment, setting)
  const file = textOf(environment, `${setting}_FILE`)
  if (text !== undefined && file !== undefined)
    return { ok: false, setting: `${setting}_FILE`, rule: `cannot be set together with ${setting}: unset one of them` }
  if (text !== undefined) return { ok: true, given: { text, origin: { _tag: "Variable" } } }
  if (file !== undefined) return fromFile(setting, `${setting}_FILE`, file, false)
  const directory = textOf(environment, credentials)
  return directory === undefined
    ? { ok: true, given: undefined }
    : fromFile(setting, credentials, join(directory, setting), true)
}
