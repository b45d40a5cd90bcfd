import pg from "pg"
import { isError } from "@kiln/core/domain"
import { OtherDatabase, SettingsIgnored, UnusableSession } from "./sessionChecks.ts"

/** Thrown by a verb when another transaction has committed in between. The step starts over and sees what that one wrote. */
export class Superseded extends Error {
  override readonly name = "Superseded"
}

/** A connection could not be had. Another try may get one. */
export class NoConnection extends Error {
  override readonly name = "NoConnection"
}

/** The consequence of an error for the step that failed. */
export type ErrorMeaning =
  /** Another transaction interfered. Nothing was written; retrying helps. */
  | "conflict"
  /** The connection was lost or could not be made. A COMMIT in progress may or may not have succeeded. */
  | "connection"
  /** The server refused or was unable. Nothing was written. */
  | "unavailable"
  /** The statement is wrong or breaks an invariant: a bug in kiln. */
  | "defect"

/** Serialization failure, deadlock, lock timeout. */
const conflicts = new Set(["40001", "40P01", "55P03"])

/**
 * Whether the same job is being inserted by an earlier try of its step, whose answer was lost: ON CONFLICT looks at the idempotency
 * key only, so that try may be met at the id. Or whether another transaction has bound the key of a request that replaces another. The next
 * try finds the key.
 */
const meetsAnother = (error: unknown): boolean =>
  sqlState(error) === "23505" &&
  isError(error) &&
  "constraint" in error &&
  (error.constraint === "jobs_id_key" || error.constraint === "jobs_key_id_idempotency_key_key")

/** Whether the idempotency key of a new job is bound to one whose request was replaced, which only a lookup finds. */
export const isReplacedKey = (error: unknown): boolean => sqlState(error) === "KILN2"

/**
 * The server ended the session (shutdown, crash, idle transaction timeout, terminated backend) or became a read-only replica.
 * Another connection may work.
 */
const endsConnection = (code: string): boolean =>
  code.startsWith("08") || code.startsWith("57P") || code === "25P03" || code === "25006" || code === "26000"

/** Syntax, types, constraints, triggers, misuse of transactions. Missing privileges (42501) are the server's refusal and can be granted. */
const isDefect = (code: string): boolean => /^(22|23|25|2F|34|3F|42|0A|P0)/.test(code) && code !== "42501"

/** Errors of the check of a new connection. */
const refusals = [OtherDatabase, SettingsIgnored, UnusableSession]

/** Classifies an error. Out of memory or disk, too many connections, a canceled statement, a damaged page and unknown codes are `unavailable`. */
export const meaningOf = (error: unknown): ErrorMeaning => {
  if (error instanceof Superseded) return "conflict"
  if (refusals.some((refusal) => error instanceof refusal) || isPoolerRefusal(error)) return "unavailable"
  if (error instanceof NoConnection) return "connection"
  const code = sqlState(error)
  if (code === undefined) return isNetworkError(error) ? "connection" : "defect"
  if (conflicts.has(code) || meetsAnother(error)) return "conflict"
  if (endsConnection(code)) return "connection"
  return isDefect(code) ? "defect" : "unavailable"
}

/** Whether another transaction holds a lock that this one needs: a lock timeout or a deadlock. */
export const isContention = (error: unknown): boolean => /^(55P03|40P01)$/.test(sqlState(error) ?? "")

/** Connection errors that the driver reports only by message. */
const connectionMessages =
  /^(Connection terminated|Connection ended|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error|Client was closed|Query read timeout|The server does not support SSL|Cannot use a pool after calling end|SASL|Received unexpected)/

/** Whether Node or the driver reports a connection error, without a code from the server. */
const isNetworkError = (error: unknown): boolean => {
  if (isError(error) && "errors" in error && Array.isArray(error.errors)) return error.errors.every(isNetworkError)
  if (!isError(error)) return false
  return (
    "syscall" in error ||
    ("code" in error && /^(E[A-Z]+|ERR_|CERT_|DEPTH_)/.test(String(error.code))) ||
    connectionMessages.test(error.message)
  )
}

/** Whether a page of the database is corrupt. Other pages may be intact. */
export const isCorrupt = (error: unknown): boolean => /^XX00[12]$/.test(sqlState(error) ?? "")

/** Returns the five-character SQLSTATE, for example `40P01`; `undefined` for errors that are not the server's. */
export const sqlState = (error: unknown): string | undefined => {
  if (error instanceof pg.DatabaseError) return error.code
  // An error of the caller's own driver.
  return isError(error) && "severity" in error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined
}

/** Messages of poolers that refuse settings in the startup message: pgbouncer and its relatives, and the proxy of RDS. */
const poolerRefusals = /unsupported startup parameter|doesn.t support command-line options/

const isPoolerRefusal = (error: unknown): error is Error => isError(error) && poolerRefusals.test(error.message)

/** Names the option for a pooler that rejects the settings of our sessions. The code stays. */
export const withPoolerHint = (error: unknown): unknown => {
  if (isPoolerRefusal(error) && !error.message.includes("pooler:"))
    error.message += `: a pooler in front of the server rejects session settings; set pooler: "transaction"`
  return error
}
