import { runTables } from "./support/tables.ts"
import { queue } from "./tables/limits.ts"
import { order, orderSettings } from "./tables/order.ts"

runTables("order", orderSettings, order, queue)
