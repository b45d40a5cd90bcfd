import { defaultEngineSettings } from "@kiln/core/effect"
import type { StorageCap, UploadCap } from "@kiln/core/domain"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/** Units of sizes. */
const bytesPer: Readonly<Record<string, number>> = {
  "": 1,
  KiB: 1_024,
  MiB: 1_024 ** 2,
  GiB: 1_024 ** 3,
  TiB: 1_024 ** 4,
}

/** Parses limits on uploads that wait for a job: `200,2GiB` for their number and bytes. `0` means no limit. Without bytes, their default applies. */
export const uploadCap: SettingType<UploadCap> = (text) => {
  if (text === "0") return parsed({ uploads: 0, bytes: 0 })
  const [, uploads = "", hasBytes, digits = "", unit = ""] =
    /^([0-9]{1,9})(, *([0-9]{1,15})(KiB|MiB|GiB)?)?$/.exec(text) ?? []
  const bytes = hasBytes === undefined ? defaultEngineSettings.uploadCap.bytes : Number(digits) * (bytesPer[unit] ?? 1)
  return uploads !== "" && Number.isSafeInteger(bytes)
    ? parsed({ uploads: Number(uploads), bytes })
    : broken("must be uploads and bytes, such as 200,2GiB; use 0 for no limit: 0,2GiB or 200,0, or 0 for both")
}

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
