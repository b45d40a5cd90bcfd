import { checkAudio } from "./audio/generatedAudio.ts"
import { providerPort } from "./ProviderPort.ts"

/** Text to audio, in a container: raw samples are not accepted. */
export const speech = providerPort({
  name: "speech",
  callLimitMs: 180_000,
  check: (answer, _request: { readonly text: string; readonly voice: string }) => checkAudio(answer),
})
