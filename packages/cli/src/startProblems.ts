import { DiskProblem, type StoreUnavailable } from "@kiln/core/domain"
import type { HttpSettingInvalid, ListenFailed } from "@kiln/http"
import { causeMessage, codesOf, type CommandFailed, failed, misused } from "./CommandFailed.ts"

/** The variable of each setting; settings of a mounted service have none. */
const settingOf: Readonly<Record<HttpSettingInvalid["setting"], string>> = {
  signingKeys: "KILN_SIGNING_KEYS",
  trustedProxies: "KILN_TRUSTED_PROXIES",
  publicUrl: "PUBLIC_URL",
  prefix: "prefix",
  redirectFiles: "KILN_FILES",
  routes: "routes",
}

const codeOf = (cause: unknown): string | undefined =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : undefined

/** Explains why listening on a port failed, in one line that names the setting. */
export const portProblem = (
  at: { readonly host: string; readonly port: number; readonly setting: string },
  cause: unknown,
): CommandFailed => {
  const address = `${at.host}:${at.port}`
  switch (codeOf(cause)) {
    case "EADDRINUSE":
      return failed(`${address} is in use by another process: stop that one, or set ${at.setting} to another port`)
    case "EACCES":
      return failed(`this user may not listen on ${address}: set ${at.setting} to a port above 1023`)
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return failed(`${at.host} is not an address of this machine: set HOST to one that is`)
    default:
      return failed(`cannot listen on ${address}: ${causeMessage(cause)}`)
  }
}

/** Error codes of Postgres for statements that the role may not run, and what to do about each. */
const refusals: Readonly<Record<string, string>> = {
  "42501": ": let the schema's owner grant the rights listed in docs/guides/postgres.md",
  "25006": ": kiln doctor --only upkeep says how to allow writes",
}

/** Explains a failure of the database after it was opened. */
export const databaseSilent = ({ cause, operation }: StoreUnavailable): CommandFailed => {
  // The message names the file and the remedy.
  if (cause instanceof DiskProblem) return failed(cause.message)
  const refused = codesOf(cause).find((code) => code in refusals)
  return refused === undefined
    ? failed(`the database does not respond (${operation}): ${causeMessage(cause)}`)
    : failed(`the database refuses ${operation}: ${causeMessage(cause)}${refusals[refused]}`)
}

/** Explains why the HTTP service does not start, in one line. */
export const listenProblem = (error: HttpSettingInvalid | ListenFailed | StoreUnavailable): CommandFailed => {
  switch (error._tag) {
    case "HttpSettingInvalid":
      return misused(`${settingOf[error.setting]} ${error.problem}`)
    case "ListenFailed":
      return portProblem({ host: error.host, port: error.port, setting: "PORT" }, error.cause)
    case "StoreUnavailable":
      return databaseSilent(error)
  }
}
