import { type OptionNames, switchNames } from "../domain/index.ts"
import type { NumberRule } from "../domain/knownNames.ts"
import { type Rate, rateProblem } from "../domain/Rate.ts"
import type { EngineSettings, ProviderSettings } from "../engine/EngineSettings.ts"
import type { ProviderBounds } from "../providers/ProviderPort.ts"

/** A hundred years: longer times are mistakes, and sums of times stay exact numbers. */
const longestMs = 36_500 * 86_400_000

const time: NumberRule = { least: 1, most: longestMs }
/** 0 means immediately, or no limit, depending on the setting. */
const timeOrNone: NumberRule = { least: 0, most: longestMs }
const count: NumberRule = { least: 1, most: Number.MAX_SAFE_INTEGER, whole: true }
/** 0 means no limit, or none at all, depending on the setting. */
const countOrNone: NumberRule = { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true }

/** The rule for a setting's value: a number, a currency, names from a list, or counts by name. */
export type SettingRule =
  | NumberRule
  | "currency"
  | "flag"
  | { readonly number: NumberRule; readonly or: string }
  | { readonly listOf: ReadonlyArray<string> }
  | { readonly each: NumberRule }
  | { readonly problem: (value: unknown) => string | undefined }

type RuleOf<Value> = [Value] extends [ProviderSettings]
  ? { readonly eachPort: Rules<ProviderBounds> }
  : RuleOfPlain<Value>
type RuleOfPlain<Value> = [Value] extends [Rate]
  ? { readonly problem: (value: unknown) => string | undefined }
  : [Value] extends [boolean]
    ? "flag"
    : [Value] extends [number]
      ? NumberRule
      : [Value] extends [string]
        ? "currency"
        : [Value] extends [number | string]
          ? { readonly number: NumberRule; readonly or: Value & string }
          : Value extends ReadonlyArray<infer Name>
            ? { readonly listOf: ReadonlyArray<Name & string> }
            : string extends keyof Value
              ? { readonly each: NumberRule }
              : Rules<Value>
type Rules<Settings> = {
  readonly [Name in keyof OptionNames<Settings>]: RuleOf<NonNullable<Settings[Name & keyof Settings]>>
}

/** The rule for each setting. A setting without a rule does not compile. */
export const settingRules: Rules<EngineSettings> = {
  upload: {
    maxBytes: count,
    transferWindowMs: timeOrNone,
    usableForMs: timeOrNone,
    maxTransfers: count,
    leaseDurationMs: time,
    stallLimitMs: time,
    transferLimitMs: time,
  },
  leaseDurationMs: time,
  claimCheckIntervalMs: time,
  concurrency: count,
  limits: { perKind: { each: count }, perProject: { number: countOrNone, or: "share" } },
  pollIntervalMs: time,
  idlePollIntervalMs: time,
  drainMs: timeOrNone,
  queueLimitMs: time,
  runLimitMs: time,
  attempts: {
    maxFailures: count,
    maxLostWorkers: count,
    backoffBaseMs: timeOrNone,
    backoffMaxMs: timeOrNone,
    retryAfterMaxMs: timeOrNone,
  },
  providers: { eachPort: { concurrency: countOrNone, callLimitMs: time, rate: { problem: rateProblem } } },
  circuit: {
    maxFailures: count,
    failingPauseMs: timeOrNone,
    failingPauseMaxMs: timeOrNone,
    brokenPauseMs: timeOrNone,
    brokenPauseMaxMs: timeOrNone,
  },
  queueCap: countOrNone,
  uploadCap: { uploads: countOrNone, bytes: countOrNone },
  storageCap: { sandbox: countOrNone, live: countOrNone },
  requireLiveWorker: "flag",
  dataRetentionMs: timeOrNone,
  jobRetentionMs: timeOrNone,
  sweepIntervalMs: time,
  idleSweepIntervalMs: time,
  pruneIntervalMs: time,
  idlePruneIntervalMs: time,
  orphanIntervalMs: time,
  orphanGraceMs: timeOrNone,
  blobWatchIntervalMs: time,
  defaultCurrency: "currency",
  forcedOff: { listOf: switchNames },
}
