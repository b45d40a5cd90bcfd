// Libraries that wrap the same drivers as those of the system tier.
import { libraryConformance } from "./support/callerLibraries.ts"

for (const name of ["Drizzle on pg", "Drizzle on postgres.js", "Knex"] as const) libraryConformance(name)
