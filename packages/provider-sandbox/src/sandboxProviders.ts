import { requireFlag, requireOptions } from "@kiln/core/domain"
import type { EffectProvider, ProviderName } from "@kiln/core/ports"
import { makeImage } from "./image.ts"
import { makeReply } from "./reply.ts"
import { makeSpeech } from "./speech.ts"
import { followSteering, ignoreSteering } from "./Steering.ts"
import { transcription } from "./transcription.ts"

/** Everything the four kinds need. A voice turn runs in its three steps. */
export type SandboxProviders = { readonly [Name in Exclude<ProviderName, "voiceTurn">]: EffectProvider<Name> }

/**
 * Providers that call no service and cost nothing. The same request always gets the same bytes, and all files are valid.
 *
 * With `steering`, the default, a text that is exactly `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (at most 60) or
 * `sandbox:flaky:<n>` decides what happens to the request. It is the text of speech, the prompt of an image, the instructions
 * of a reply. Steering is for test keys: pass `steering: false` for live jobs.
 */
export const sandboxProviders = (options: { readonly steering?: boolean } = {}): SandboxProviders => {
  requireOptions("sandboxProviders()", options, { steering: true })
  const { steering = true } = options
  requireFlag("steering", steering)
  const steer = steering ? followSteering : ignoreSteering
  return { transcription, speech: makeSpeech(steer), reply: makeReply(steer), image: makeImage(steer) }
}
