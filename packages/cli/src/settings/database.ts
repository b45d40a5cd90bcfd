import { broken, parsed, type SettingType } from "./SettingType.ts"

/** The name of a Postgres schema, as it is written without quotes; those beginning with pg_ are the server's own. */
const SCHEMA = /^(?!pg_)[a-z_][0-9a-z_]{0,50}$/

const rule = "must be a URL like postgres://user:password@host:5432/database"
const escapes = "(in a user or password, write @ : / # % as %40 %3A %2F %23 %25)"

/** Parses the URL of a Postgres database. Error messages never repeat the URL, because it may contain a password. */
export const postgresUrl: SettingType<string> = (text) =>
  isPostgresUrl(text) ? parsed(text) : broken(`${rule} ${escapes}`)

/** Parses the location of records outside of the data directory. */
export const databaseUrl: SettingType<string> = (text) =>
  isPostgresUrl(text) ? parsed(text) : broken(`${rule}, or unset for SQLite in KILN_DATA_DIR ${escapes}`)

const isPostgresUrl = (text: string): boolean => {
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text) || /[#\s]/.test(text)) return false
  const { password, pathname, username } = new URL(text)
  try {
    // The driver decodes these.
    return [password, pathname, username].every((part) => typeof decodeURIComponent(part) === "string")
  } catch {
    return false
  }
}

export const databaseSchema: SettingType<string> = (text) =>
  SCHEMA.test(text)
    ? parsed(text)
    : broken("must be 1 to 51 of the characters a-z, 0-9 and _, and must not start with a digit or pg_")
