import { refuse } from "../failures.ts"
import { flac } from "../files/flac.ts"
import { aac, mp3 } from "../files/frames.ts"
import { oggOpus } from "../files/oggOpus.ts"
import { tone, wav } from "../files/wav.ts"
import { invalidValue, jsonFields, optionalText, requiredText } from "./jsonFields.ts"
import { file, seedOf, type Service } from "./Service.ts"

interface Format {
  readonly mediaType: string
  readonly make: (seed: Buffer, seconds: number) => Buffer
}

const formats: Readonly<Record<string, Format>> = {
  mp3: { mediaType: "audio/mpeg", make: mp3 },
  opus: { mediaType: "audio/ogg", make: oggOpus },
  aac: { mediaType: "audio/aac", make: aac },
  flac: { mediaType: "audio/flac", make: flac },
  wav: { mediaType: "audio/wav", make: wav },
  pcm: { mediaType: "audio/pcm", make: tone },
}

const MOST_CHARACTERS = 4096
/** Approximate reading speed. */
const CHARACTERS_PER_SECOND = 15

export const speech: Service<"speech"> = {
  read: (incoming) => {
    const fields = jsonFields(incoming)
    const model = requiredText(fields, "model")
    const input = requiredText(fields, "input")
    const voice = requiredText(fields, "voice")
    const length = [...input].length
    if (length === 0)
      throw refuse("Invalid 'input': empty string.", { param: "input", code: "string_below_min_length" })
    if (length > MOST_CHARACTERS) {
      throw refuse(`Invalid 'input': string too long. Expected at most ${MOST_CHARACTERS} characters.`, {
        param: "input",
        code: "string_above_max_length",
      })
    }
    const responseFormat = optionalText(fields, "response_format") ?? "mp3"
    if (!Object.hasOwn(formats, responseFormat)) {
      throw invalidValue("response_format", responseFormat, Object.keys(formats))
    }
    return { model, input, voice, responseFormat, fields }
  },

  answer: ({ input, responseFormat, voice }, value) => {
    const format = formats[responseFormat]
    const mediaType = value?.mediaType ?? format?.mediaType ?? "application/octet-stream"
    return file(value?.data ?? spoken(input, voice, format), mediaType)
  },
}

const spoken = (input: string, voice: string, format: Format | undefined): Uint8Array =>
  format?.make(seedOf(voice, input), Math.max(1, [...input].length / CHARACTERS_PER_SECOND)) ?? Buffer.alloc(0)
