import { checkBytes, type GeneratedFile } from "../checks.ts"
import { resultInvalid } from "../ProviderError.ts"
import { generatedAudio } from "./generatedAudio.ts"

/** Bytes: an hour and a half of speech as MP3, six minutes as uncompressed WAV. */
const maxAudioBytes = 32 * 1_024 * 1_024

/**
 * Requires a complete audio file, as far as its container tells, of at most 32 MiB. The media type follows from the bytes,
 * not from what the provider says. Throws `result_invalid`.
 */
export const checkAudio = (answer: unknown): GeneratedFile => {
  const data = checkBytes(answer, maxAudioBytes)
  const found = generatedAudio(data)
  if (found.problem !== undefined) throw resultInvalid(`expected audio, got ${data.length} bytes: ${found.problem}`)
  return { data, mediaType: found.mediaType }
}
