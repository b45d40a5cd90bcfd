import { requireFlag, requireOptions } from "@kiln/core/domain"
import type { ProviderName, ProviderPorts } from "@kiln/core/ports"
import { makeImage } from "./image.ts"
import { makeReply } from "./reply.ts"
import { makeSpeech } from "./speech.ts"
import { followSteering, ignoreSteering } from "./Steering.ts"
import { transcription } from "./transcription.ts"

/** The providers of the four built-in kinds; a voice turn runs in its three steps. */
export type SandboxProviders = Pick<ProviderPorts, Exclude<ProviderName, "voiceTurn">>

/**
 * Creates providers that make no network calls and cost nothing. The same request always returns the same bytes, and all files are valid.
 *
 * With `steering` (the default), a text that is exactly `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (at most 60) or
 * `sandbox:flaky:<n>` decides what happens to the request (speech: its text; image: its prompt; reply: its instructions). It is meant for
 * test keys only: give live jobs a set without it.
 */
export const sandboxProviders = (options: { readonly steering?: boolean } = {}): SandboxProviders => {
  requireOptions("sandboxProviders()", options, { steering: true })
  const { steering = true } = options
  requireFlag("steering", steering)
  const steer = steering ? followSteering : ignoreSteering
  return { transcription, speech: makeSpeech(steer), reply: makeReply(steer), image: makeImage(steer) }
}
