import { broken, type ParsedSetting, parsed, type SettingType } from "./SettingType.ts"

const millisecondsPer: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A hundred years: longer ones are slips, and times stay numbers that are exact. */
const longest = 36_500 * 86_400_000

/** A duration like `90d`, `24h`, `30m` or `10s`, in milliseconds. */
export const duration: SettingType<number> = (text) => {
  const [, digits = "", unit = ""] = /^([1-9][0-9]{0,9})([smhd])$/.exec(text) ?? []
  const milliseconds = Number(digits) * (millisecondsPer[unit] ?? NaN)
  return milliseconds <= longest ? parsed(milliseconds) : broken("must be a duration like 90d, 24h, 30m or 10s")
}

/** A duration, or `0` for no end. */
export const retention: SettingType<number> = (text): ParsedSetting<number> => {
  if (text === "0") return parsed(0)
  const ends = duration(text)
  return ends.ok ? ends : broken(`${ends.rule}, or 0 to keep for ever`)
}
