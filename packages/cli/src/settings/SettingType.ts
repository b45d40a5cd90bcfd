/** The text of a setting is invalid. */
interface BrokenRule {
  readonly ok: false
  /** The rule, phrased to follow the setting's name: `must be an integer from 1 to 1000`. */
  readonly rule: string
}
export type ParsedSetting<A> = { readonly ok: true; readonly value: A } | BrokenRule

/** Parses the text of a setting. The text is never empty, because an empty variable counts as unset. */
export type SettingType<A> = (text: string) => ParsedSetting<A>

export const parsed = <A>(value: A): ParsedSetting<A> => ({ ok: true, value })
export const broken = (rule: string): BrokenRule => ({ ok: false, rule })

/** Parses an integer between two bounds, both inclusive. */
export const integer =
  (min: number, max: number): SettingType<number> =>
  (text) => {
    const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : NaN
    return value >= min && value <= max ? parsed(value) : broken(`must be an integer from ${min} to ${max}`)
  }

/** Parses a TCP port; 0 selects any free one. */
export const port: SettingType<number> = (text) => {
  const number = integer(0, 65_535)(text)
  return number.ok ? number : broken("must be a port from 1 to 65535, or 0 for any free one")
}

/** Parses a fixed TCP port. */
export const fixedPort: SettingType<number> = (text) => {
  const number = integer(1, 65_535)(text)
  return number.ok ? number : broken("must be a port from 1 to 65535")
}

/** Parses one of a few words. */
export const oneOf =
  <const Words extends ReadonlyArray<string>>(...words: Words): SettingType<Words[number]> =>
  (text) => {
    const word = words.find((candidate) => candidate === text)
    return word === undefined ? broken(`must be ${listed(words)}`) : parsed(word)
  }

const listed = (words: ReadonlyArray<string>): string =>
  words.length > 1 ? `${words.slice(0, -1).join(", ")} or ${words.at(-1)}` : words.join("")

/** `on` or `off`. */
export const onOff: SettingType<boolean> = (text) => {
  const word = oneOf("on", "off")(text)
  return word.ok ? parsed(word.value === "on") : word
}

/** Parses `off`. There is no `on`, because a process can only disable what the operator has enabled for all processes. */
export const forcedOff: SettingType<true> = (text) =>
  text === "off" ? parsed(true) : broken("must be off or unset; use `kiln switch on` to turn the switch on")

const millisecondsPer: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A hundred years. Longer durations are typing errors, and times must stay exact numbers. */
const longest = 36_500 * 86_400_000

/** Parses a duration like `90d`, `24h`, `30m` or `10s` into milliseconds. */
export const duration: SettingType<number> = (text) => {
  const [, digits = "", unit = ""] = /^([1-9][0-9]*)([smhd])$/.exec(text) ?? []
  const milliseconds = Number(digits) * (millisecondsPer[unit] ?? NaN)
  if (Number.isNaN(milliseconds)) return broken("must be a duration like 90d, 24h, 30m or 10s")
  return milliseconds <= longest ? parsed(milliseconds) : broken("must be a duration of at most 36500d")
}

/** Parses a duration of at most ten minutes, or `0`. */
export const stopDelay: SettingType<number> = (text): ParsedSetting<number> => {
  const waits = text === "0" ? parsed(0) : duration(text)
  return waits.ok && waits.value <= 600_000 ? waits : broken("must be 0 or a duration up to 10m, like 5s")
}

const durationOrZero =
  (meaningOfZero: string): SettingType<number> =>
  (text): ParsedSetting<number> => {
    if (text === "0") return parsed(0)
    const ends = duration(text)
    return ends.ok ? ends : broken(`${ends.rule}, or 0 ${meaningOfZero}`)
  }

/** Parses a duration, or `0` for unlimited. */
export const retention = durationOrZero("to keep data indefinitely")

/** Parses a duration, or `0` for no check. */
export const backupAge = durationOrZero("to check no backups")

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const

/** Writes a duration in the largest unit that leaves no remainder; `0` means unlimited. */
export const durationText = (ms: number): string => {
  const [unit, per] = units.find(([, each]) => ms % each === 0) ?? ["s", 1_000]
  return ms === 0 ? "0" : `${ms / per}${unit}`
}
