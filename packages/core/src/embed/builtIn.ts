import { SpeechSynthesis } from "../kinds/SpeechSynthesis.ts"
import { ImageGeneration } from "../kinds/ImageGeneration.ts"
import { Transcription } from "../kinds/Transcription.ts"
import { defaultVoices, type Voices } from "../kinds/Voices.ts"
import { VoiceTurn } from "../kinds/VoiceTurn.ts"
import type {
  BuiltInKind,
  ImageGenerationKind,
  SpeechSynthesisKind,
  TranscriptionKind,
  VoiceTurnKind,
} from "./BuiltInKind.ts"

/** An uploaded audio file in, its transcript out. */
export const transcription: TranscriptionKind = Transcription
/** Text in, speech out. */
export const speechSynthesis = (voices: Voices = defaultVoices): SpeechSynthesisKind => SpeechSynthesis(voices)
/** Audio in; text and voice out. */
export const voiceTurn = (voices: Voices = defaultVoices): VoiceTurnKind => VoiceTurn(voices)
/** A prompt in, a square PNG out. */
export const imageGeneration: ImageGenerationKind = ImageGeneration

/** The four kinds of the service, with other voices than the default ones where they are given. */
export const builtInKinds = (voices: Voices = defaultVoices): ReadonlyArray<BuiltInKind> => [
  transcription,
  speechSynthesis(voices),
  voiceTurn(voices),
  imageGeneration,
]
