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
import { storageCaps, storageCapSettings } from "./tables/storageCaps.ts"
import { uploadCaps, uploadCapSettings } from "./tables/uploadCaps.ts"

runTables("limits", limitSettings, rateLimits, failedAuthentications)
runTables("limits behind a proxy", proxySettings, proxies)
runTables("caps of uploads", uploadCapSettings, uploadCaps)
runTables("caps of storage", storageCapSettings, storageCaps)
runTables("limits of an installation nobody configured", defaultLimitSettings, defaultLimits)
