import { broken, parsed, type SettingType } from "./SettingType.ts"

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
