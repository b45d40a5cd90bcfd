import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { causeMessage, type CommandFailed } from "../CommandFailed.ts"
import type { DatabasePlace } from "../database/DatabasePlace.ts"
import { databaseProblem } from "../database/databaseProblem.ts"
import { ageText, type Check, problem, skipped } from "./Check.ts"

/** Milliseconds for a check that reads little. */
export const shortLimitMs = 20_000

/** A check to run. */
export interface Look<R> {
  /** Of its result if it fails or takes too long. */
  readonly name: string
  readonly limitMs: number
  readonly run: Effect.Effect<ReadonlyArray<Check>, StoreUnavailable | BlobUnavailable | CommandFailed, R>
}

const failureOf = (database: DatabasePlace, error: StoreUnavailable | BlobUnavailable | CommandFailed): string => {
  switch (error._tag) {
    case "StoreUnavailable":
      return databaseProblem(database, error.cause).message
    case "BlobUnavailable":
      return `the blob store cannot be used: ${causeMessage(error.cause)}`
    case "CommandFailed":
      return error.message
  }
}

/** Turns a failure of a check into its result. */
const unavailable = (
  name: string,
  database: DatabasePlace,
  error: StoreUnavailable | BlobUnavailable | CommandFailed,
): Check => {
  const isAboutBlobs = error._tag === "BlobUnavailable" || (error._tag === "CommandFailed" && name === "blobs")
  const what = isAboutBlobs
    ? "correct KILN_BLOBS or its credentials, or mount its disk"
    : database._tag === "Sqlite"
      ? "see whether the disk works and this user may read the file"
      : "start the server, or correct DATABASE_URL"
  return problem(name, { summary: failureOf(database, error), remedy: `${what}, then run kiln doctor again` })
}

const tookTooLong = ({ limitMs, name }: Pick<Look<never>, "name" | "limitMs">): Check =>
  problem(name, {
    summary: `did not finish within ${ageText(limitMs)}`,
    remedy: "see whether the database server, the disks and the network respond, then run kiln doctor again",
  })

/**
 * Runs checks one after another, each within its limit, so that nothing that does not respond can stop the doctor. After one that
 * took too long, the others are skipped, because they ask the same.
 */
export const inOrder = <R>(
  database: DatabasePlace,
  looks: ReadonlyArray<Look<R>>,
): Effect.Effect<ReadonlyArray<Check>, never, R> =>
  Effect.gen(function* () {
    const checks: Array<Check> = []
    let isStuck = false
    for (const look of looks) {
      if (isStuck) {
        checks.push(skipped(look.name, "skipped, because an earlier check took too long"))
        continue
      }
      const found = yield* look.run.pipe(
        Effect.catch((error) => Effect.succeed([unavailable(look.name, database, error)])),
        Effect.timeoutOption(look.limitMs),
      )
      isStuck = Option.isNone(found)
      checks.push(...Option.getOrElse(found, () => [tookTooLong(look)]))
    }
    return checks
  })
