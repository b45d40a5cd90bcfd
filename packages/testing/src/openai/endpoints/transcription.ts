import { createHash } from "node:crypto"
import type { ReceivedFile } from "../Endpoint.ts"
import { missingParameter, refuse } from "../failures.ts"
import { wavSeconds } from "../files/wav.ts"
import { type FormPart, parseMultipart } from "../parseMultipart.ts"
import { invalidValue } from "./jsonFields.ts"
import { json, type Service, type WireAnswer } from "./Service.ts"

const formats = ["json", "verbose_json", "text"]
const extensions = ["flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm"]

export const transcription: Service<"transcription"> = {
  read: ({ body, headers }) => {
    const parts = parseMultipart(headers["content-type"] ?? "", body)
    const fields = Object.create(null) as Record<string, ReadonlyArray<string>>
    for (const { data, filename, name } of parts) {
      if (filename === undefined) fields[name] = [...(fields[name] ?? []), Buffer.from(data).toString("utf8")]
    }
    const received = parts.find(({ name, filename }) => name === "file" && filename !== undefined)
    if (received === undefined) throw missingParameter("file")
    const model = fields["model"]?.[0]
    if (model === undefined || model === "") throw missingParameter("model")
    return { model, responseFormat: formatFor(model, fields["response_format"]?.[0]), file: fileOf(received), fields }
  },

  answer: ({ file, model, responseFormat }, value) => {
    const text = value?.text ?? transcriptOf(file)
    const seconds = value?.seconds ?? file.seconds
    if (responseFormat === "text") return plainText(`${text}\n`)
    const isByToken = !model.startsWith("whisper")
    // Full seconds, as the service bills them.
    const usage = seconds === undefined ? {} : { usage: { type: "duration", seconds: Math.ceil(seconds) } }
    if (responseFormat === "json") return json({ text, ...(isByToken ? { usage: tokens(text) } : usage) })
    return json({
      task: "transcribe",
      language: value?.language ?? "english",
      ...(seconds === undefined ? {} : { duration: seconds }),
      text,
      segments: text === "" ? [] : [segment(text, seconds ?? 0)],
      ...usage,
    })
  },
}

/** Returns the transcript of a file, different for every file. */
export const transcriptOf = ({ sha256 }: Pick<ReceivedFile, "sha256">): string =>
  `this is what was said in the recording ${sha256.slice(0, 16)}`

const formatFor = (model: string, asked: string | undefined): string => {
  const format = asked ?? "json"
  if (!formats.includes(format)) throw invalidValue("response_format", format, formats)
  if (format === "verbose_json" && /^gpt-.*transcribe/.test(model)) {
    throw refuse(
      `response_format 'verbose_json' is not compatible with model '${model}'. Use 'json' or 'text' instead.`,
      {
        param: "response_format",
        code: "unsupported_value",
      },
    )
  }
  return format
}

const fileOf = ({ contentType, data, filename = "" }: FormPart): ReceivedFile => {
  const extension = /\.([^.]+)$/.exec(filename)?.[1]?.toLowerCase() ?? ""
  if (!extensions.includes(extension)) {
    throw refuse(`Unrecognized file format. Supported formats: ${extensions.join(", ")}.`, { param: "file" })
  }
  if (data.length === 0) {
    throw refuse("Audio file is too short. Minimum audio length is 0.1 seconds.", { code: "audio_too_short" })
  }
  const seconds = wavSeconds(data)
  return {
    filename,
    contentType,
    bytes: data.length,
    sha256: createHash("sha256").update(data).digest("hex"),
    ...(seconds === undefined ? {} : { seconds }),
  }
}

const plainText = (text: string): WireAnswer => ({
  status: 200,
  headers: { "content-type": "text/plain; charset=utf-8" },
  body: Buffer.from(text),
})

const tokens = (text: string) => {
  const words = text.split(/\s+/).length
  return {
    type: "tokens",
    input_tokens: 10,
    input_token_details: { text_tokens: 0, audio_tokens: 10 },
    output_tokens: words,
    total_tokens: 10 + words,
  }
}

const segment = (text: string, end: number) => ({
  id: 0,
  seek: 0,
  start: 0,
  end,
  text,
  tokens: [50_364, 50_365],
  temperature: 0,
  avg_logprob: -0.2,
  compression_ratio: 1,
  no_speech_prob: 0.01,
})
