import { broken, type ParsedSetting, parsed, type SettingType } from "./SettingType.ts"

const millisecondsPer: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A hundred years. Longer durations are typing errors, and times must stay exact numbers. */
const longest = 36_500 * 86_400_000

/** Parses a duration like `90d`, `24h`, `30m` or `10s` into milliseconds. */
export const duration: SettingType<number> = (text) => {
  const [, digits = "", unit = ""] = /^([1-9][0-9]{0,9})([smhd])$/.exec(text) ?? []
  const milliseconds = Number(digits) * (millisecondsPer[unit] ?? NaN)
  return milliseconds <= longest ? parsed(milliseconds) : broken("must be a duration like 90d, 24h, 30m or 10s")
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
