import { defaultVoiceNames } from "../domain/index.ts"

/** Public voice names and the provider's voice behind each. */
export interface Voices {
  readonly byName: Readonly<Record<string, string>>
  /** The public name used where a request names none. */
  readonly default: string
}

export const defaultVoices: Voices = {
  byName: Object.fromEntries(defaultVoiceNames.map((name) => [name, name])),
  default: defaultVoiceNames[0],
}

/** The provider's voice for a request's; requests were checked to name a known one. */
export const providerVoice = (voices: Voices, name: string | undefined): string => {
  const voice = name ?? voices.default
  return Object.hasOwn(voices.byName, voice) ? (voices.byName[voice] ?? voice) : voice
}
