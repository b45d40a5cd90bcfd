import { existsSync, statSync } from "node:fs"
import * as Effect from "effect/Effect"
import type { StoreInspection } from "@kiln/core/ports"
import { type Board, type StoreUnavailable, withForcedOff } from "@kiln/core/domain"
import { causeMessage, codesOf } from "../CommandFailed.ts"
import type { DatabasePlace } from "../database/DatabasePlace.ts"
import type { Settings } from "../Settings.ts"
import { ageText, type Check, counted, graded, ok, problem, warning } from "./Check.ts"
import { checkBackups } from "./checkBackups.ts"
import { checkClock } from "./checkClock.ts"
import { checkCopy } from "./checkInstallation.ts"
import { checkDeliveries } from "./checkDeliveries.ts"
import { checkKeys } from "./checkKeys.ts"
import { checkLive } from "./checkLive.ts"
import { checkProviders } from "./checkProviders.ts"
import { checkQueue, checkWorkers } from "./checkQueue.ts"
import { checkSchedules } from "./checkSchedules.ts"
import { checkSigningKeys } from "./checkSigningKeys.ts"
import { type Look, shortLimitMs } from "./inOrder.ts"

/** Blobs are removed within seconds of their erasure, or by one of the following sweeps, which run every minute. */
const purgeOverdueMs = 3_600_000

const checkMigrations = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.migrations, ({ applied, changed, pending, unknown }) => {
    if (changed.length > 0)
      return problem("migrations", {
        summary: "the schema is that of another development version of kiln, or was changed by hand",
        remedy:
          "run the version of kiln that created it to finish its jobs and to export its records (kiln job list --json, " +
          "kiln billing export), and begin with an empty database: set KILN_DATA_DIR or DATABASE_URL",
        findings: changed.map((name) => ({ message: `${name} had another text`, details: { migration: name } })),
      })
    if (pending.length > 0)
      return problem("migrations", {
        summary: `${counted(pending.length, "migration")} pending`,
        remedy: "kiln migrate",
        findings: pending.map(({ name }) => ({ message: `${name} was not applied`, details: { migration: name } })),
      })
    return unknown.length > 0
      ? warning("migrations", {
          summary: "a newer version of kiln has changed the schema; this one can run beside it",
          remedy: "upgrade kiln on this machine",
          findings: unknown.map((name) => ({
            message: `${name} is not known to this version`,
            details: { migration: name },
          })),
        })
      : ok("migrations", `all ${applied.length} applied`)
  })

const identifier = (name: string): string => `"${decodeURIComponent(name).replaceAll('"', '""')}"`

/** The statement that lets the role of kiln create temporary tables. The URL may leave its names to the driver. */
const grantTemporary = (database: DatabasePlace): string => {
  if (database._tag === "Sqlite") return ""
  const { pathname, username } = new URL(database.url)
  const named = (name: string, other: string) => (name === "" ? other : identifier(name))
  return `GRANT TEMPORARY ON DATABASE ${named(pathname.slice(1), "…")} TO ${named(username, "the role of kiln")}`
}

/** The remedy if the scratch schema for the comparison cannot be created. */
const comparisonRemedy = (cause: unknown, database: DatabasePlace): string => {
  const codes = codesOf(cause)
  if (codes.includes("55P03") || codes.includes("57014"))
    return "kiln doctor --only upkeep names the session that has locked a table"
  if (codes.includes("25006") || codes.includes("25001")) return "run kiln doctor against the primary server"
  return codes.includes("42501") && /temporary/.test(causeMessage(cause))
    ? `as the owner of the database: ${grantTemporary(database)}; or run kiln doctor as the schema's owner`
    : "run kiln doctor as the schema's owner"
}

/** The command that creates a schema to compare with, elsewhere. */
const newInstallation = (database: DatabasePlace): string =>
  database._tag === "Sqlite"
    ? "KILN_DATA_DIR=./new kiln migrate --init"
    : "KILN_DATABASE_SCHEMA=kiln_new kiln migrate (drop that schema afterwards)"

/** Compares the schema with the migrations. Needs a scratch schema, which not every user may create; a failure is not drift. */
const checkSchema = (store: StoreInspection, database: DatabasePlace): Effect.Effect<Check> =>
  Effect.match(store.schemaDrift, {
    onFailure: ({ cause }) =>
      warning("schema", {
        summary: `could not be compared with the migrations: ${causeMessage(cause)}`,
        remedy: comparisonRemedy(cause, database),
      }),
    onSuccess: (drift) =>
      drift.length === 0
        ? ok("schema", "matches the migrations")
        : problem("schema", {
            summary: "differs from the migrations",
            remedy: `undo what was changed by hand: compare with a new installation, which ${newInstallation(database)} creates`,
            findings: drift.map(({ object, problem: what }) => ({
              message: `${object} is ${what === "extra" ? "not kiln's" : what}`,
              details: { object, problem: what },
            })),
          }),
  })

/** Bytes of a SQLite database that are checked in a millisecond, at least. It blocks this process, so no time limit can end it. */
const checkedPerMs = 50_000

const takesMs = (database: DatabasePlace): number =>
  database._tag === "Sqlite" && existsSync(database.path) ? statSync(database.path).size / checkedPerMs : 0

const checkIntegrity = (
  store: StoreInspection,
  database: DatabasePlace,
  limitMs: number,
): Effect.Effect<Check, StoreUnavailable> =>
  Effect.suspend(() => (takesMs(database) > limitMs ? Effect.succeed(tooLarge) : checkDamage(store, database)))

const tooLarge = warning("integrity", {
  summary: "not checked, because the database is too large for the time limit",
  remedy: "kiln doctor --limit 2h, at a quiet time",
})

const checkDamage = (store: StoreInspection, database: DatabasePlace): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.damage, (damage) =>
    damage.length === 0
      ? ok("integrity", "no damage found")
      : problem("integrity", {
          summary: "the database is damaged",
          remedy: `stop all processes, keep a copy of the database, and restore a backup: ${database._tag === "Sqlite" ? "kiln restore DIR --to NEW_DATA_DIR" : "docs/guides/backup.md describes how"}`,
          findings: damage.map((message) => ({ message })),
        }),
  )

const checkPurges = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.duePurges, ({ count, oldestAgeMs }) => {
    if (count === 0) return ok("purges", "no erased blobs are waiting for removal")
    const waiting = `${counted(count, "erased blob")} still to be removed`
    return oldestAgeMs > purgeOverdueMs
      ? problem("purges", {
          summary: `${waiting}, the oldest for ${ageText(oldestAgeMs)}`,
          remedy: "start kiln serve, or run kiln retention run; its log says why the blob store removes nothing",
        })
      : warning("purges", {
          summary: waiting,
          remedy: "wait some minutes, while kiln serve runs, or run kiln retention run",
        })
  })

/** Checks what the store cannot mend itself: space that stays unused, and settings of the server. */
const checkUpkeep = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.upkeep, (found) =>
    graded(
      "upkeep",
      found.map(({ isUrgent, problem: message, remedy }) => ({ isProblem: isUrgent, message, remedy })),
      { well: "nothing to do", wrong: "the database needs attention" },
    ),
  )

/** The checks that need only the records. A schema that was never migrated, or is another one, has nothing to check. */
export const storeChecks = (
  store: StoreInspection,
  settings: Settings,
  limitMs: number,
): Effect.Effect<ReadonlyArray<Look<never>>, StoreUnavailable> =>
  Effect.map(store.migrations, ({ applied, changed, pending }) => {
    const look = (name: string, check: Effect.Effect<Check, StoreUnavailable>, ms = shortLimitMs): Look<never> => ({
      name,
      limitMs: ms,
      run: Effect.map(check, (found) => [found]),
    })
    const migrations = look("migrations", checkMigrations(store))
    if (applied.length === 0 || changed.length > 0) return [migrations]
    const always = [
      migrations,
      look("schema", checkSchema(store, settings.database)),
      look("integrity", checkIntegrity(store, settings.database, limitMs), limitMs),
      look("copy", checkCopy(store)),
      look("upkeep", checkUpkeep(store)),
      look("purges", checkPurges(store)),
    ]
    if (pending.length > 0) return always
    const { forcedOff = [] } = settings.engine
    const onBoard = (check: (board: Board) => Effect.Effect<Check, StoreUnavailable>) =>
      Effect.flatMap(store.readBoard, (board) => check(withForcedOff(board, forcedOff)))
    return [
      ...always,
      look("clock", checkClock(store, settings.database)),
      look("backups", checkBackups(store, settings)),
      look("keys", checkKeys(store)),
      look("signing-keys", checkSigningKeys(store, settings)),
      look(
        "live",
        onBoard((board) => checkLive(store, board, forcedOff)),
      ),
      look("providers", checkProviders(store)),
      look("workers", checkWorkers(store)),
      look(
        "queue",
        onBoard((board) => checkQueue(store, board, forcedOff)),
      ),
      look("schedules", checkSchedules(store)),
      look("deliveries", checkDeliveries(store)),
    ]
  })
