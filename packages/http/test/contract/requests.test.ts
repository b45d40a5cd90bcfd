import { runTables } from "./support/tables.ts"
import { besidesRoutes } from "./tables/besides.ts"
import { bodies } from "./tables/bodies.ts"
import { fields } from "./tables/fields.ts"
import { fieldsTogether } from "./tables/fieldsTogether.ts"
import { json } from "./tables/json.ts"
import { keys } from "./tables/keys.ts"
import { oddTexts } from "./tables/oddTexts.ts"
import { routing } from "./tables/routes.ts"

runTables("requests", {}, routing, besidesRoutes, keys, bodies, json, fields, fieldsTogether, oddTexts)
