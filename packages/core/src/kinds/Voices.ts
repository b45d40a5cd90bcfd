import { defaultVoiceNames } from "../domain/Limits.ts"

/** Public voice names and the provider's voice for each. */
export interface Voices {
  readonly byName: Readonly<Record<string, string>>
  /** The public name used if a request names none. */
  readonly default: string
  /** Whether other names are accepted too. Clients set this, because they do not know an installation's voices. */
  readonly isOpen?: boolean
}

export const defaultVoices: Voices = {
  byName: Object.fromEntries(defaultVoiceNames.map((name) => [name, name])),
  default: defaultVoiceNames[0],
}
