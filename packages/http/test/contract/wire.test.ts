import { runTables } from "./support/tables.ts"
import { fuzz } from "./tables/fuzz.ts"
import { malformedHttp } from "./tables/malformedHttp.ts"

runTables("wire", {}, malformedHttp, fuzz)
