import { Effect } from "effect"
import type { GeneratedFile } from "../ports/index.ts"
import { AttemptFailed } from "./JobKind.ts"

const invalid = (detail: string) => new AttemptFailed({ errorCode: "result_invalid", retry: true, detail })

/** UTF-16 units. Fifteen minutes of speech are some 20,000. */
const maxTextLength = 1_000_000

/** A provider's text must be one that every store can keep, and of a bounded length. */
export const checkText = (text: string): Effect.Effect<string, AttemptFailed> =>
  text.length <= maxTextLength && !text.includes("\u0000") && text.isWellFormed()
    ? Effect.succeed(text)
    : Effect.fail(invalid("expected a text without U+0000 and unpaired surrogates, of at most 1,000,000 characters"))

/** A provider's audio must be non-empty and say that it is audio. */
export const checkAudio = (file: GeneratedFile): Effect.Effect<GeneratedFile, AttemptFailed> =>
  file.data.length > 0 && file.mediaType.startsWith("audio/")
    ? Effect.succeed(file)
    : Effect.fail(invalid(`expected audio, got ${file.data.length} bytes of ${file.mediaType}`))

const PNG_SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
const PNG_END = [0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82]

const hasBytes = (data: Uint8Array, offset: number, expected: ReadonlyArray<number>): boolean =>
  expected.every((byte, index) => data[offset + index] === byte)

/** A provider's image must be a whole PNG of exactly `size` by `size` pixels. */
export const checkPng = (file: GeneratedFile, size: number): Effect.Effect<GeneratedFile, AttemptFailed> => {
  const { data } = file
  if (data.length < 57 || !hasBytes(data, 0, PNG_SIGNATURE)) return Effect.fail(invalid("expected a PNG"))
  if (!hasBytes(data, data.length - PNG_END.length, PNG_END)) return Effect.fail(invalid("the PNG is cut short"))
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  const width = view.getUint32(16)
  const height = view.getUint32(20)
  return width === size && height === size
    ? Effect.succeed({ data, mediaType: "image/png" })
    : Effect.fail(invalid(`expected ${size}x${size} pixels, got ${width}x${height}`))
}
