import { defaultVoiceNames } from "../domain/index.ts"

/** Public voice names and the provider's voice behind each. */
export interface Voices {
  readonly byName: Readonly<Record<string, string>>
  /** The public name used where a request names none. */
  readonly default: string
  /** Whether other names are accepted too. Clients do not know which voices an installation has. */
  readonly isOpen?: boolean
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
