import { defaultEngineSettings } from "@kiln/core/effect"
import type { UploadCap } from "@kiln/core/domain"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/** Units of sizes. */
export const bytesPer: Readonly<Record<string, number>> = {
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
