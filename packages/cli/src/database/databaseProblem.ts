import { Effect } from "effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { causeMessage, codesOf, type CommandFailed, failed } from "../CommandFailed.ts"
import { type DatabasePlace, describeDatabase, type PostgresPlace } from "./DatabasePlace.ts"

/** What the server or the system says, by its code, and what to look at. */
const reasons: Readonly<Record<string, string>> = {
  "28P01": "it refuses the user or the password",
  "28000": "it refuses the user",
  "3D000": "the server has no database of that name",
  "42501":
    "this user lacks the rights for that: have the schema's owner run kiln migrate and grant what docs/guides/postgres.md says",
  "53300":
    "the server has no connection left: lower KILN_DATABASE_POOL, or raise its max_connections or the user's limit",
  "55P03": "another process holds a lock there, perhaps a migration: try again when that has ended",
  "57P03": "the server is starting up or shutting down",
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "it closed the connection",
  ENOTFOUND: "the name of the host is not known",
  EAI_AGAIN: "the name of the host cannot be looked up",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the host cannot be reached",
  ETIMEDOUT: "it does not answer in time",
}

/** What comes without a code that would tell it, by the words of the driver or the pooler. */
const worded: ReadonlyArray<readonly [words: RegExp, reason: string]> = [
  [/client password must be a string/, "it wants a password, and neither the URL nor PGPASSWORD holds one"],
  [
    /unsupported startup parameter: options/,
    "a pooler stands before it, which refuses session settings: set KILN_DATABASE_POOLER=transaction",
  ],
  [/^timeout expired$|due to connection timeout/, "it does not answer in time"],
  [/^connect ENOENT /, "there is no such socket"],
]

/** Whatever text it is, without the password of the URL, in either spelling. */
const withoutPassword = (text: string, { url }: PostgresPlace): string => {
  const { password } = new URL(url)
  return [url, password, decodeURIComponent(password)]
    .filter((secret) => secret !== "")
    .reduce((clean, secret) => clean.replaceAll(secret, "***"), text)
}

const postgresReason = (place: PostgresPlace, cause: unknown): string => {
  const known = codesOf(cause)
    .map((code) => reasons[code])
    .find((reason) => reason !== undefined)
  const message = causeMessage(cause)
  return known ?? worded.find(([words]) => words.test(message))?.[1] ?? withoutPassword(message, place)
}

/** Why a database cannot be worked with, in one line without the password. */
export const databaseProblem = (place: DatabasePlace, cause: unknown): CommandFailed =>
  failed(
    `cannot open ${describeDatabase(place)}: ${place._tag === "Sqlite" ? causeMessage(cause) : postgresReason(place, cause)}`,
  )

/** A user without the rights is the operator's to help, though a store takes whatever is forbidden for its own mistake. */
const isDenied = (cause: unknown): boolean => codesOf(cause).includes("42501")

/** Why a store did not open, or did not do what it was asked to before it was in use, in one line. */
export const explainDatabase =
  (place: DatabasePlace) =>
  <A, R>(effect: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<A, CommandFailed, R> =>
    effect.pipe(
      Effect.mapError((error) => databaseProblem(place, error.cause)),
      Effect.catchDefect((defect) =>
        isDenied(defect) ? Effect.fail(databaseProblem(place, defect)) : Effect.die(defect),
      ),
    )
