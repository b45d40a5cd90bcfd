import { defaultEngineSettings, type EngineSettings } from "../engine/index.ts"

/** Of which 0 means something: none, no bound, at once. */
const mayBeZero: ReadonlySet<string> = new Set(["drainMs", "queueCap", "dataRetentionMs", "jobRetentionMs"])

const checkUploadCap = (cap: unknown): void => {
  const { bytes, uploads } = (cap ?? {}) as Partial<EngineSettings["uploadCap"]>
  if (![bytes, uploads].every((part) => Number.isSafeInteger(part) && Number(part) >= 0))
    throw new TypeError("settings: uploadCap must have uploads and bytes, whole numbers of 0 or more; 0 is no cap")
}

/** The settings with the defaults where nothing is said. A number that can mean nothing is a `TypeError`: a worker would stand still with it, and say nothing. */
export const settingsOf = (given: Partial<EngineSettings> = {}): EngineSettings => {
  const said = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  const settings = { ...defaultEngineSettings, ...said }
  for (const [name, value] of Object.entries(settings)) {
    if (!(name in defaultEngineSettings)) throw new TypeError(`settings: there is no "${name}"`)
    if (name === "uploadCap") checkUploadCap(value)
    if (name === "requireLiveWorker" && typeof value !== "boolean")
      throw new TypeError("settings: requireLiveWorker must be true or false")
    if (typeof value !== "number") continue
    const least = mayBeZero.has(name) ? 0 : Number.MIN_VALUE
    if (!(value >= least && Number.isFinite(value)) || (name === "concurrency" && !Number.isInteger(value)))
      throw new TypeError(`settings: ${name} cannot be ${value}`)
  }
  return settings
}
