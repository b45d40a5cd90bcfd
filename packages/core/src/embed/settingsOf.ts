import { type OptionNames, requireFlag, requireNumber, requireOneOf, switchNames } from "../domain/index.ts"
import { givenField, isPlainObject, type NumberRule, unknownName } from "../domain/givenValues.ts"
import { type Rate, rateProblem } from "../domain/Rate.ts"
import type { EngineSettings, GivenSettings, ProviderSettings } from "../engine/EngineSettings.ts"
import { defaultEngineSettings } from "../engine/index.ts"
import { builtInPorts, type ProviderPort } from "../providers/index.ts"
import type { ProviderBounds } from "../providers/ProviderPort.ts"

/**
 * Completes settings with the defaults, including the limits of these provider ports. `switches` may be forced off. Throws `TypeError` for an unknown setting
 * or port and for a value out of range, which could otherwise stop a worker silently.
 */
export const settingsOf = (
  given: GivenSettings = {},
  ports: ReadonlyArray<ProviderPort> = builtInPorts,
  switches: ReadonlyArray<string> = switchNames,
): EngineSettings => {
  const providers = Object.fromEntries(ports.map(({ bounds, name }) => [name, bounds]))
  const rules = {
    ...settingRules,
    providers: Object.fromEntries(ports.map(({ name }) => [name, settingRules.providers.eachPort])),
    forcedOff: { listOf: switches },
  }
  return merged("settings", given, { ...defaultEngineSettings, providers }, rules) as object as EngineSettings
}

type Fields = Readonly<Record<string, unknown>>

const merged = (place: string, given: unknown, defaults: object, rules: object): Fields => {
  requireFields(place, given)
  // A class instance may have other fields.
  const unknown = isPlainObject(given) ? Object.keys(given).find((name) => !Object.hasOwn(rules, name)) : undefined
  if (unknown !== undefined)
    throw new TypeError(unknownName(`setting "${unknown}" in ${place}`, unknown, Object.keys(rules)))
  const known: Fields = { ...defaults }
  const settings = { ...known }
  for (const [name, rule] of Object.entries<unknown>(rules as Fields)) {
    const value = givenField(given, name)
    if (value === undefined) continue
    settings[name] = isRule(rule)
      ? checked(`${place}.${name}`, value, rule)
      : merged(`${place}.${name}`, value, known[name] as object, rule as object)
  }
  return settings
}

function requireFields(place: string, given: unknown): asserts given is Fields {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new TypeError(`${place} must be an object`)
}

const isRule = (rule: unknown): rule is SettingRule =>
  typeof rule === "string" ||
  (isPlainObject(rule) && ["least", "number", "listOf", "each", "problem"].some((name) => Object.hasOwn(rule, name)))

const checked = (place: string, value: unknown, rule: SettingRule): unknown => {
  if (rule === "currency") {
    if (typeof value !== "string" || !/^[a-z]{3}$/.test(value))
      throw new TypeError(`${place} must be a currency of three lower-case letters, such as "usd"`)
  } else if (rule === "flag") {
    requireFlag(place, value)
  } else if ("number" in rule) {
    if (value === rule.or) return value
    if (typeof value === "string") throw new TypeError(`${place} must be a number or "${rule.or}"`)
    requireNumber(place, value, rule.number)
  } else if ("listOf" in rule) {
    if (!Array.isArray(value)) throw new TypeError(`${place} must be an array of ${rule.listOf.join(", ")}`)
    for (const name of value) requireOneOf(place, name, rule.listOf)
  } else if ("problem" in rule) {
    const problem = rule.problem(value)
    if (problem !== undefined) throw new TypeError(`${place} ${problem}`)
  } else if ("each" in rule) {
    requireFields(place, value)
    const parts = Object.entries(value).filter(([, part]) => part !== undefined)
    for (const [name, part] of parts) requireNumber(`${place}.${name}`, part, rule.each)
    return Object.fromEntries(parts)
  } else {
    requireNumber(place, value, rule)
  }
  return value
}

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
const settingRules: Rules<EngineSettings> = {
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
  operatorSeesRequests: "flag",
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
