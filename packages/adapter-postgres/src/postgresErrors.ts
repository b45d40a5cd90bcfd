import pg from "pg"
import { isError } from "@kiln/core/domain"

/** Thrown by a verb when another transaction has committed in between. The step starts over and sees what that one wrote. */
export class Superseded extends Error {
  override readonly name = "Superseded"
}

/** What an error means for the step it came out of. */
export type ErrorMeaning =
  /** Somebody else was in the way, and nothing was written: trying again helps. */
  | "conflict"
  /** The connection is gone, or never came about. Whether a COMMIT under way counted is not known. */
  | "connection"
  /** The server refuses or cannot, and says so. Nothing was written. */
  | "unavailable"
  /** The statement itself is wrong, or breaks an invariant: a defect of ours. */
  | "defect"

/** Serialization failure, deadlock, lock timeout. */
const conflicts = new Set(["40001", "40P01", "55P03"])

/**
 * The server ends the session (shutdown, crash, an idle transaction's limit, a terminated backend), or no longer takes
 * writes on it (it became a replica): the next connection may fare better.
 */
const endsConnection = (code: string): boolean =>
  code.startsWith("08") || code.startsWith("57P") || code === "25P03" || code === "25006" || code === "26000"

/** Syntax, types, constraints, triggers, misuse of transactions. To lack a right (42501) is the server's refusal, and may be mended there. */
const isDefect = (code: string): boolean => /^(22|23|25|2F|34|3F|42|0A|P0)/.test(code) && code !== "42501"

/** Out of memory or disk, too many connections, a canceled statement, a damaged page, and whatever is not known here. */
export const meaningOf = (error: unknown): ErrorMeaning => {
  if (error instanceof Superseded) return "conflict"
  const code = sqlState(error)
  if (code === undefined) return isNetworkError(error) ? "connection" : "defect"
  if (conflicts.has(code)) return "conflict"
  if (endsConnection(code)) return "connection"
  return isDefect(code) ? "defect" : "unavailable"
}

/** Another transaction holds what this one needs: one waited too long for the other, or each for the other. */
export const isContention = (error: unknown): boolean => /^(55P03|40P01)$/.test(sqlState(error) ?? "")

/** What the driver says of a connection in words alone. */
const connectionMessages =
  /^(Connection terminated|Connection ended|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error|Client was closed|Query read timeout|The server does not support SSL|Cannot use a pool after calling end|SASL|Received unexpected)/

/** What Node and the driver say of a connection, without a code of the server's. */
const isNetworkError = (error: unknown): boolean => {
  if (isError(error) && "errors" in error && Array.isArray(error.errors)) return error.errors.every(isNetworkError)
  if (!isError(error)) return false
  return (
    "syscall" in error ||
    ("code" in error && /^(E[A-Z]+|ERR_|CERT_|DEPTH_)/.test(String(error.code))) ||
    connectionMessages.test(error.message)
  )
}

/** A page of the database contradicts itself. What else is stored may well be fine. */
export const isCorrupt = (error: unknown): boolean => /^XX00[12]$/.test(sqlState(error) ?? "")

/** Five characters, for example `40P01`; `undefined` for what the server did not say. */
export const sqlState = (error: unknown): string | undefined => {
  if (error instanceof pg.DatabaseError) return error.code
  // Of a caller's own driver.
  return isError(error) && "severity" in error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined
}
