import { isPlainObject, requireFlag, requireNumber, requireOneOf, unknownName } from "../domain/index.ts"
import type { GivenSettings } from "../engine/EngineSettings.ts"
import { defaultEngineSettings, type EngineSettings } from "../engine/index.ts"
import { type SettingRule, settingRules } from "./settingRules.ts"

/**
 * The settings, with the defaults where nothing is said. Throws `TypeError` for a setting that does not exist, and for a value that
 * can mean nothing: a worker would stand still with it, in silence.
 */
export const settingsOf = (given: GivenSettings = {}): EngineSettings =>
  merged("settings", given, defaultEngineSettings, settingRules) as object as EngineSettings

type Fields = Readonly<Record<string, unknown>>

const merged = (place: string, given: unknown, defaults: object, rules: object): Fields => {
  if (!isPlainObject(given)) throw new TypeError(`${place} must be an object`)
  const known: Fields = { ...defaults }
  const settings = { ...known }
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(rules, name))
      throw new TypeError(unknownName(`setting "${name}" in ${place}`, name, Object.keys(rules)))
    if (value === undefined) continue
    const rule: unknown = (rules as Fields)[name]
    settings[name] = isRule(rule)
      ? checked(`${place}.${name}`, value, rule)
      : merged(`${place}.${name}`, value, known[name] as object, rule as object)
  }
  return settings
}

const isRule = (rule: unknown): rule is SettingRule =>
  typeof rule === "string" ||
  (isPlainObject(rule) && ["least", "number", "listOf", "each"].some((name) => Object.hasOwn(rule, name)))

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
    if (!Array.isArray(value)) throw new TypeError(`${place} must be a list of ${rule.listOf.join(", ")}`)
    for (const name of value) requireOneOf(place, name, rule.listOf)
  } else if ("each" in rule) {
    if (!isPlainObject(value)) throw new TypeError(`${place} must be an object`)
    for (const [name, part] of Object.entries(value)) requireNumber(`${place}.${name}`, part, rule.each)
  } else {
    requireNumber(place, value, rule)
  }
  return value
}
