import { defaultEngineSettings } from "@kiln/core/effect"
import type { StorageCap } from "@kiln/core/domain"
import { broken, parsed, type SettingType } from "./SettingType.ts"
import { bytesPer } from "./uploadCap.ts"

const bytesOf = (text: string): number | undefined => {
  const [, digits, unit = ""] = /^([0-9]{1,15})(KiB|MiB|GiB|TiB)?$/.exec(text) ?? []
  const bytes = digits === undefined ? Number.NaN : Number(digits) * (bytesPer[unit] ?? 1)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

const problem = "must be a size, such as 20GiB, or one for each mode, such as test=5GiB,live=100GiB; use 0 for no limit"

/**
 * Parses the bytes that a project may keep: one size for each mode, or sizes by mode (`test=5GiB,live=100GiB`). A mode that is not named
 * keeps its default. `0` means no limit.
 */
export const storageCap: SettingType<StorageCap> = (text) => {
  const both = bytesOf(text)
  if (both !== undefined) return parsed({ sandbox: both, live: both })
  const cap: { sandbox?: number; live?: number } = {}
  for (const part of text.split(/, */)) {
    const [, mode, size = ""] = /^(test|live)=(.+)$/.exec(part) ?? []
    const bytes = bytesOf(size)
    const name = mode === "test" ? "sandbox" : "live"
    if (mode === undefined || bytes === undefined || cap[name] !== undefined) return broken(problem)
    cap[name] = bytes
  }
  return parsed({ ...defaultEngineSettings.storageCap, ...cap })
}
