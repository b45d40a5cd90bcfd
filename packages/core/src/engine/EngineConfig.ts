import * as Context from "effect/Context"
import { defaultAttemptLimits } from "../domain/Attempt.ts"
import { defaultCircuitLimits } from "../domain/Circuit.ts"
import { limits } from "../domain/index.ts"
import { builtInPorts } from "../providers/index.ts"
import type { EngineSettings, ProviderSettings } from "./EngineSettings.ts"

const seconds = 1_000
const minutes = 60 * seconds
const hours = 60 * minutes
const days = 24 * hours

export const defaultEngineSettings: EngineSettings = {
  upload: {
    maxBytes: limits.uploadBytes,
    transferWindowMs: 15 * minutes,
    usableForMs: 24 * hours,
    maxTransfers: 5,
    leaseDurationMs: 30 * seconds,
    stallLimitMs: 30 * seconds,
    transferLimitMs: 10 * minutes,
  },
  leaseDurationMs: 30 * seconds,
  claimCheckIntervalMs: 1 * seconds,
  concurrency: 32,
  limits: { perKind: {}, perProject: "share" },
  pollIntervalMs: 1 * seconds,
  idlePollIntervalMs: 30 * seconds,
  drainMs: 25 * seconds,
  queueLimitMs: 24 * hours,
  runLimitMs: 30 * minutes,
  attempts: defaultAttemptLimits,
  providers: Object.fromEntries(builtInPorts.map(({ bounds, name }) => [name, bounds])) as object as ProviderSettings,
  circuit: defaultCircuitLimits,
  queueCap: 0,
  uploadCap: { uploads: 200, bytes: 2 * 1_024 ** 3 },
  storageCap: { sandbox: 10 * 1_024 ** 3, live: 100 * 1_024 ** 3 },
  requireLiveWorker: false,
  operatorSeesRequests: true,
  dataRetentionMs: 30 * days,
  jobRetentionMs: 90 * days,
  sweepIntervalMs: 1 * seconds,
  idleSweepIntervalMs: 30 * seconds,
  pruneIntervalMs: 1 * minutes,
  idlePruneIntervalMs: 5 * minutes,
  orphanIntervalMs: 1 * hours,
  orphanGraceMs: 24 * hours,
  blobWatchIntervalMs: 1 * minutes,
  defaultCurrency: "usd",
  forcedOff: [],
}

/** The engine's settings. Without a provided value, `defaultEngineSettings`. */
export const EngineConfig = Context.Reference<EngineSettings>("@kiln/core/engine/EngineConfig", {
  defaultValue: () => defaultEngineSettings,
})
