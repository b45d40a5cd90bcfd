import { Effect } from "effect"
import { isBytes, isStorableText } from "../domain/index.ts"
import type { GeneratedFile, Reply, Transcript } from "../ports/index.ts"
import { generatedAudio } from "./generatedAudio.ts"
import { generatedPng } from "./generatedPng.ts"
import { AttemptFailed } from "./AttemptContext.ts"

/*
 * What a provider answered, checked before anything of it is stored or charged. A provider is somebody else's code: what
 * its types say is a claim, so everything is looked at as the unknown value it is.
 */

const invalid = (detail: string) => new AttemptFailed({ errorCode: "result_invalid", retry: true, detail })

/** UTF-16 units. Fifteen minutes of speech are some 20,000. */
const maxTextLength = 1_000_000

/** Bytes. An hour and a half of speech as an mp3, six minutes of it as an uncompressed wav. */
const maxAudioBytes = 32 * 1_024 * 1_024

/** Bytes. Twice what 1024 by 1024 pixels of the largest kind take uncompressed. */
const maxImageBytes = 16 * 1_024 * 1_024

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

/** A provider's text must be one that every store can keep, and of a bounded length. Fails with `result_invalid`. */
export const checkText = (text: unknown): Effect.Effect<string, AttemptFailed> =>
  isStorableText(text) && text.length <= maxTextLength
    ? Effect.succeed(text)
    : Effect.fail(invalid("expected a text without U+0000 and unpaired surrogates, of at most 1,000,000 characters"))

/** A transcript: any text, also an empty one, and the provider's seconds where they are a length. Fails with `result_invalid`. */
export const checkTranscript = (
  transcript: Transcript,
): Effect.Effect<{ readonly text: string; readonly seconds?: number }, AttemptFailed> =>
  Effect.map(checkText(fieldOf(transcript, "text")), (text) => {
    const seconds = fieldOf(transcript, "seconds")
    return typeof seconds === "number" && Number.isFinite(seconds) && seconds >= 0 ? { text, seconds } : { text }
  })

/**
 * A reply: a text that can be spoken, and how many tokens it took. Nobody is charged for more tokens than were asked for,
 * whatever the provider counts. Fails with `result_invalid`.
 */
export const checkReply = (reply: Reply, maxOutputTokens: number): Effect.Effect<Reply, AttemptFailed> =>
  Effect.flatMap(checkText(fieldOf(reply, "text")), (text) => {
    const outputTokens = fieldOf(reply, "outputTokens")
    const truncated = fieldOf(reply, "truncated")
    if (text.trim() === "") return Effect.fail(invalid("expected a reply, got nothing that could be spoken"))
    if (typeof outputTokens !== "number" || !Number.isSafeInteger(outputTokens) || outputTokens < 0)
      return Effect.fail(invalid("expected the reply's output tokens as a whole number"))
    if (typeof truncated !== "boolean")
      return Effect.fail(invalid("expected to be told whether the reply is truncated"))
    return Effect.succeed({ text, outputTokens: Math.min(outputTokens, maxOutputTokens), truncated })
  })

/**
 * A provider's audio must be audio by its bytes, whole as far as its container tells, and of at most 32 MiB. Its media
 * type is what the bytes are, whatever the provider called them. Fails with `result_invalid`.
 */
export const checkAudio = (file: GeneratedFile): Effect.Effect<GeneratedFile, AttemptFailed> =>
  Effect.flatMap(checkBytes(file, maxAudioBytes), (data) => {
    const found = generatedAudio(data)
    return found.problem === undefined
      ? Effect.succeed({ data, mediaType: found.mediaType })
      : Effect.fail(invalid(`expected audio, got ${data.length} bytes: ${found.problem}`))
  })

/** A provider's image must be a whole PNG of exactly `size` by `size` pixels and at most 16 MiB. Fails with `result_invalid`. */
export const checkPng = (file: GeneratedFile, size: number): Effect.Effect<GeneratedFile, AttemptFailed> =>
  Effect.flatMap(checkBytes(file, maxImageBytes), (data) => {
    const problem = generatedPng(data, size)
    return problem === undefined
      ? Effect.succeed({ data, mediaType: "image/png" })
      : Effect.fail(invalid(`expected a PNG, got ${data.length} bytes: ${problem}`))
  })

const checkBytes = (file: GeneratedFile, maxBytes: number): Effect.Effect<Uint8Array, AttemptFailed> => {
  const data = fieldOf(file, "data")
  if (!isBytes(data)) return Effect.fail(invalid("expected a file as bytes"))
  if (data.length === 0) return Effect.fail(invalid("the file is empty"))
  return data.length <= maxBytes
    ? Effect.succeed(data)
    : Effect.fail(invalid(`the file has ${data.length} bytes, more than ${maxBytes}`))
}
