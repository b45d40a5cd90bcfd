import type { JobKind } from "./JobKind.ts"
import { ImageGeneration } from "./ImageGeneration.ts"
import { SpeechSynthesis } from "./SpeechSynthesis.ts"
import { Transcription } from "./Transcription.ts"
import { defaultVoices, type Voices } from "./Voices.ts"
import { VoiceTurn } from "./VoiceTurn.ts"

/** The four kinds of the service. A fifth is one more file and one more line. */
export const builtInKinds = (voices: Voices = defaultVoices) =>
  [Transcription, SpeechSynthesis(voices), VoiceTurn(voices), ImageGeneration] as const satisfies ReadonlyArray<JobKind>

export type BuiltInKinds = ReturnType<typeof builtInKinds>
