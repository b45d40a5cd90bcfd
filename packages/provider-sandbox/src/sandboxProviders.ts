import { requireFlag, requireOptions } from "@kiln/core/domain"
import type { ProviderName, ProviderPorts } from "@kiln/core/ports"
import { makeImage } from "./image.ts"
import { makeReply } from "./reply.ts"
import { makeSpeech } from "./speech.ts"
import { followSteering, ignoreSteering } from "./Steering.ts"
import { transcription } from "./transcription.ts"

/** Everything the four kinds need; a voice turn is made in its three steps. */
export type SandboxProviders = Pick<ProviderPorts, Exclude<ProviderName, "voiceTurn">>

/**
 * Providers that call nobody and cost nothing: the same request always gets the same bytes, all of them valid files.
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
