import { runTables } from "./support/tables.ts"
import { idempotency } from "./tables/idempotency.ts"
import { outcomes } from "./tables/outcomes.ts"
import { ownership } from "./tables/ownership.ts"
import { races } from "./tables/races.ts"
import { leaving, pruned, pruneSettings, silent, silentSettings } from "./tables/retained.ts"
import { success } from "./tables/success.ts"

runTables("jobs", {}, success, outcomes, idempotency, ownership, races, leaving)
runTables("jobs that are soon forgotten", pruneSettings, pruned)
runTables("jobs that hear nothing", silentSettings, silent)
