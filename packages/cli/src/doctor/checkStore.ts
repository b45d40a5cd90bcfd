import * as Effect from "effect/Effect"
import type { StoreInspection } from "@kiln/core/ports"
import type { StoreUnavailable } from "@kiln/core/domain"
import { causeMessage } from "../CommandFailed.ts"
import { checkProviders } from "./checkProviders.ts"
import { type Check, counted, ok, problem, warning, wellUnless } from "./Check.ts"

/** Blobs are removed within seconds of their erasure, or by one of the following sweeps, which run every minute. */
const purgeOverdueMs = 3_600_000

const checkMigrations = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.migrations, ({ applied, pending, unknown }) => {
    if (pending.length > 0)
      return problem(
        "migrations",
        `${counted(pending.length, "migration")} pending: run kiln migrate`,
        pending.map(({ name }) => ({ message: `${name} was not applied`, details: { migration: name } })),
      )
    return unknown.length > 0
      ? warning(
          "migrations",
          "a newer version of kiln has changed the schema; this one can run beside it",
          unknown.map((name) => ({ message: `${name} is not known to this version`, details: { migration: name } })),
        )
      : ok("migrations", `all ${applied.length} applied`)
  })

/** Compares the schema with the migrations. Needs a scratch schema, which not every user may create; a failure is not drift. */
const checkSchema = (store: StoreInspection): Effect.Effect<Check> =>
  Effect.match(store.schemaDrift, {
    onFailure: ({ cause }) => warning("schema", `could not be compared with the migrations: ${causeMessage(cause)}`),
    onSuccess: (drift) =>
      wellUnless(
        "schema",
        drift.map(({ object, problem: what }) => ({
          message: `${object} is ${what === "extra" ? "not kiln's" : what}`,
          details: { object, problem: what },
        })),
        { well: "matches the migrations", problem: "differs from the migrations" },
      ),
  })

const checkIntegrity = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.damage, (damage) =>
    wellUnless(
      "integrity",
      damage.map((message) => ({ message })),
      {
        well: "no damage found",
        problem: "the database is damaged: restore a backup",
      },
    ),
  )

const checkPurges = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.duePurges, ({ count, oldestAgeMs }) => {
    if (count === 0) return ok("purges", "no erased blobs are waiting for removal")
    const waiting = `${counted(count, "erased blob")} still to be removed`
    return oldestAgeMs > purgeOverdueMs
      ? problem(
          "purges",
          `${waiting}, the oldest for ${Math.round(oldestAgeMs / 60_000)} minutes: is a server running, and is its blob store healthy?`,
        )
      : warning("purges", waiting)
  })

/** Runs the checks that need only the records. A schema that was never migrated has nothing to check. */
export const checkStore = (store: StoreInspection): Effect.Effect<ReadonlyArray<Check>, StoreUnavailable> =>
  Effect.gen(function* () {
    const { applied, pending } = yield* store.migrations
    const looks = applied.length === 0 ? [checkMigrations] : [checkMigrations, checkSchema, checkIntegrity, checkPurges]
    return yield* Effect.forEach([...looks, ...(pending.length === 0 ? [checkProviders] : [])], (look) => look(store))
  })
