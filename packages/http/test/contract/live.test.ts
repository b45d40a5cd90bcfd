import { runTables } from "./support/tables.ts"
import { charges } from "./tables/charges.ts"
import { deadlines, deadlineSettings, queued } from "./tables/deadlines.ts"
import { spendCaps } from "./tables/spendCaps.ts"
import { forcedOffSettings, live, liveForcedOff, liveNothing, liveSettings } from "./tables/live.ts"

runTables("fresh installation", {}, liveNothing)
runTables("forced off", forcedOffSettings, liveForcedOff)
runTables("live", liveSettings, queued, live, charges, spendCaps)
runTables("deadlines", deadlineSettings, deadlines)
