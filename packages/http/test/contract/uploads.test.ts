import { runTables } from "./support/tables.ts"
import { transfers } from "./tables/transfers.ts"
import { uploads, uploadSettings } from "./tables/uploads.ts"
import { uploadTimes, uploadTimeSettings } from "./tables/uploadTimes.ts"

runTables("uploads", uploadSettings, uploads, transfers)
runTables("uploads with short clocks", uploadTimeSettings, uploadTimes)
