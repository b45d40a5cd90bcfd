import { runTables } from "./support/tables.ts"
import {
  defaultLimits,
  defaultLimitSettings,
  failedAuthentications,
  limitSettings,
  proxies,
  proxySettings,
  rateLimits,
} from "./tables/limits.ts"

runTables("limits", limitSettings, rateLimits, failedAuthentications)
runTables("limits behind a proxy", proxySettings, proxies)
runTables("limits of an installation nobody configured", defaultLimitSettings, defaultLimits)
