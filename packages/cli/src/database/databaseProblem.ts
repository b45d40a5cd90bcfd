import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { causeMessage, codesOf, type CommandFailed, failed } from "../CommandFailed.ts"
import { type DatabasePlace, describeDatabase, type PostgresPlace } from "./DatabasePlace.ts"

/** Why a database cannot be used, and what to do about it, if that is known. */
type Reason = readonly [why: string, advice?: string]

/** Reasons by error code of the server or the system. */
const reasons: Readonly<Record<string, Reason>> = {
  "28P01": ["the server rejects the user or the password"],
  "28000": ["the server rejects the user"],
  "3D000": ["the server has no database of that name"],
  "42501": [
    "this user lacks permissions",
    "let the schema's owner run kiln migrate and grant the rights listed in docs/guides/postgres.md",
  ],
  "53300": [
    "the server has no free connections",
    "lower KILN_DATABASE_POOL, or raise its max_connections or the user's limit",
  ],
  "55P03": ["another process holds a lock, perhaps a migration", "try again later"],
  "57P03": ["the server is starting up or shutting down"],
  ECONNREFUSED: ["no server is listening at this address"],
  ECONNRESET: ["the server closed the connection"],
  ENOTFOUND: ["the host name is unknown"],
  EAI_AGAIN: ["the host name cannot be resolved"],
  EHOSTUNREACH: ["the host cannot be reached"],
  ENETUNREACH: ["the host cannot be reached"],
  ETIMEDOUT: ["the server does not respond in time"],
}

/** Reasons of errors without a specific code, by the message of the driver or the pooler. */
const worded: ReadonlyArray<readonly [words: RegExp, reason: Reason]> = [
  [
    /client password must be a string/,
    ["the server requires a password, but neither the URL nor PGPASSWORD contains one"],
  ],
  [
    /unsupported startup parameter|set pooler: "transaction"/,
    ["a pooler in front of the server rejects or ignores session settings", "set KILN_DATABASE_POOLER=transaction"],
  ],
  [/^timeout expired$|due to connection timeout/, ["the server does not respond in time"]],
  [/^connect ENOENT /, ["the socket does not exist"]],
]

/** Removes the URL's password from a text, in both spellings. */
const withoutPassword = (text: string, { url }: PostgresPlace): string => {
  const { password } = new URL(url)
  return [url, password, decodeURIComponent(password)]
    .filter((secret) => secret !== "")
    .reduce((clean, secret) => clean.replaceAll(secret, "***"), text)
}

const postgresReason = (place: PostgresPlace, cause: unknown): Reason => {
  const known = codesOf(cause)
    .map((code) => reasons[code])
    .find((reason) => reason !== undefined)
  const message = causeMessage(cause)
  return known ?? worded.find(([words]) => words.test(message))?.[1] ?? [withoutPassword(message, place)]
}

/** Explains why a database cannot be used, in one line without the password. */
export const databaseProblem = (place: DatabasePlace, cause: unknown): CommandFailed => {
  const [why, advice] = place._tag === "Sqlite" ? [causeMessage(cause)] : postgresReason(place, cause)
  const message = `cannot open ${describeDatabase(place)}: ${why}`
  return advice === undefined ? failed(message) : failed(`${message}: ${advice}`, advice)
}

/** Detects missing permissions, which a store treats as a defect, but which the operator can grant. */
const isDenied = (cause: unknown): boolean => codesOf(cause).includes("42501")

/** Explains in one line why a store did not open, or failed before it was in use. */
export const explainDatabase =
  (place: DatabasePlace) =>
  <A, R>(effect: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<A, CommandFailed, R> =>
    effect.pipe(
      Effect.mapError((error) => databaseProblem(place, error.cause)),
      Effect.catchDefect((defect) =>
        isDenied(defect) ? Effect.fail(databaseProblem(place, defect)) : Effect.die(defect),
      ),
    )
