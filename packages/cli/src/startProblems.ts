import { DiskProblem, type StoreUnavailable } from "@kiln/core/domain"
import type { HttpSettingInvalid, ListenFailed } from "@kiln/http"
import { causeMessage, type CommandFailed, failed, misused } from "./CommandFailed.ts"

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

/** Explains a failure of the database after it was opened. */
export const databaseSilent = (error: StoreUnavailable): CommandFailed =>
  // The message names the file and the remedy.
  error.cause instanceof DiskProblem
    ? failed(error.cause.message)
    : failed(`the database does not respond (${error.operation}): ${causeMessage(error.cause)}`)

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
