import { defaultEngineSettings, type EngineSettings } from "@kiln/core/effect"
import { defaultHttpSettings, type HttpSettings } from "@kiln/http"
import { noRateLimits, publicUrl, type ServiceSettings } from "./Service.ts"
import { signingKeys } from "./signing.ts"

/** The defaults, but for pauses no test should wait through. */
export const engineSettings = ({ engine = {} }: ServiceSettings): EngineSettings => ({
  ...defaultEngineSettings,
  drainMs: 0,
  // Rows that need a job in processing let it sleep; others must not wait for it.
  concurrency: 64,
  sweepIntervalMs: 100,
  attempts: { ...defaultEngineSettings.attempts, backoffBaseMs: 5, backoffMaxMs: 20 },
  ...engine,
  upload: { ...defaultEngineSettings.upload, ...engine.upload },
})

export const httpSettings = ({ http = {} }: ServiceSettings): HttpSettings => ({
  ...defaultHttpSettings,
  port: 0,
  publicUrl,
  signingKeys,
  rateLimits: noRateLimits,
  ...http,
})
