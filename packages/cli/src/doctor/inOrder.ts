import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { causeMessage, codesOf, type CommandFailed, failed } from "../CommandFailed.ts"
import type { DatabasePlace } from "../database/DatabasePlace.ts"
import { databaseProblem } from "../database/databaseProblem.ts"
import { ageText, type Check, problem, skipped } from "./Check.ts"
import { Examination } from "./Examination.ts"

/** Milliseconds for a check that reads little. */
export const shortLimitMs = 20_000

/** A check to run. */
export interface Look<R> {
  /** Of its result if it fails or takes too long. */
  readonly name: string
  /** Names of the results that it may have, if there are others than its own. It runs if one of them is wanted. */
  readonly yields?: ReadonlyArray<string>
  readonly limitMs: number
  readonly run: Effect.Effect<ReadonlyArray<Check>, StoreUnavailable | BlobUnavailable | CommandFailed, R>
}

const failureOf = (
  database: DatabasePlace,
  error: StoreUnavailable | BlobUnavailable | CommandFailed,
): CommandFailed => {
  switch (error._tag) {
    case "StoreUnavailable":
      return databaseProblem(database, error.cause)
    case "BlobUnavailable":
      // Files in the database.
      if (codesOf(error.cause).includes("42501")) return databaseProblem(database, error.cause)
      return failed(`the blob store cannot be used: ${causeMessage(error.cause)}`)
    case "CommandFailed":
      return error
  }
}

/** Error codes of Postgres for a statement that waited too long for a lock, or was too slow. */
const blockedCodes = new Set(["55P03", "57014"])

const isBlocked = (error: StoreUnavailable | BlobUnavailable | CommandFailed): boolean =>
  error._tag === "StoreUnavailable" && codesOf(error.cause).some((code) => blockedCodes.has(code))

/** Turns a failure of a check into its result. */
const unavailable = (
  name: string,
  database: DatabasePlace,
  error: StoreUnavailable | BlobUnavailable | CommandFailed,
): Check => {
  if (isBlocked(error))
    return problem(name, {
      summary: "the database did not answer in time, probably because another session has locked a table",
      remedy: "kiln doctor --only upkeep names the session and how to end it",
    })
  const { advice, message } = failureOf(database, error)
  const isAboutBlobs = error._tag === "BlobUnavailable" || (error._tag === "CommandFailed" && name === "blobs")
  const usualRemedy = isAboutBlobs
    ? "correct KILN_BLOBS or its credentials, or mount its disk"
    : database._tag === "Sqlite"
      ? "see whether the disk works and this user may read the file"
      : "start the server, or correct DATABASE_URL"
  return problem(name, { summary: message, remedy: `${advice ?? usualRemedy}, then run kiln doctor again` })
}

const tookTooLong = ({ limitMs, name }: Pick<Look<never>, "name" | "limitMs">): Check =>
  problem(name, {
    summary: `did not finish within ${ageText(limitMs)}`,
    remedy: "see whether the database server, the disks and the network respond, then run kiln doctor again",
  })

/**
 * Runs checks one after another, each within its limit, so that nothing that does not respond can stop the doctor. After one that
 * took too long, the others are skipped, because they ask the same. Checks that are not wanted do not run. Each result is reported
 * as soon as it is known, except those of checks with `yields`, which report their parts themselves.
 */
export const inOrder = <R>(
  database: DatabasePlace,
  looks: ReadonlyArray<Look<R>>,
): Effect.Effect<ReadonlyArray<Check>, never, R> =>
  Effect.gen(function* () {
    const { includes, report } = yield* Examination
    const checks: Array<Check> = []
    const settle = (found: ReadonlyArray<Check>, isReported = false): void => {
      checks.push(...found)
      if (!isReported) for (const check of found) report(check)
    }
    let isStuck = false
    for (const look of looks) {
      if (![look.name, ...(look.yields ?? [])].some(includes)) continue
      if (isStuck) {
        settle([skipped(look.name, "skipped, because an earlier check took too long")])
        continue
      }
      const found = yield* look.run.pipe(
        Effect.map((results) => () => settle(results, look.yields !== undefined)),
        Effect.catch((error) => Effect.succeed(() => settle([unavailable(look.name, database, error)]))),
        Effect.timeoutOption(look.limitMs),
      )
      isStuck = Option.isNone(found)
      Option.getOrElse(found, () => () => settle([tookTooLong(look)]))()
    }
    return checks
  })

/** Reports a result that was found without a look of its own, if it is wanted. */
export const reported = (check: Check): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.map(Examination, ({ includes, report }) => {
    if (!includes(check.name) && check.status !== "problem") return []
    report(check)
    return [check]
  })
