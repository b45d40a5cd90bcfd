import { inflateSync } from "node:zlib"
import { type OpenAiStandIn, type OpenAiStandInOptions, startOpenAiStandIn } from "@kiln/testing/openai"

/** Runs a test with a stand-in that is closed afterwards. */
export const withStandIn = async (
  use: (standIn: OpenAiStandIn) => Promise<void>,
  options: OpenAiStandInOptions = {},
): Promise<void> => {
  await using standIn = await startOpenAiStandIn(options)
  await use(standIn)
}

const authorized = ({ apiKey }: OpenAiStandIn): Record<string, string> => ({ authorization: `Bearer ${apiKey}` })

export const post = (
  standIn: OpenAiStandIn,
  path: string,
  body: unknown,
  { headers, signal }: { readonly headers?: Record<string, string>; readonly signal?: AbortSignal | undefined } = {},
): Promise<Response> =>
  fetch(`${standIn.url}${path}`, {
    method: "POST",
    headers: { ...authorized(standIn), "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
    redirect: "manual",
    signal: signal ?? null,
  })

export const speak = (standIn: OpenAiStandIn, input: string, more: object = {}, signal?: AbortSignal) =>
  post(standIn, "/audio/speech", { model: "tts-1", voice: "alloy", input, ...more }, { signal })

export const ask = (standIn: OpenAiStandIn, text: string, more: object = {}, signal?: AbortSignal) =>
  post(
    standIn,
    "/chat/completions",
    { model: "gpt-4o-mini", messages: [{ role: "user", content: text }], ...more },
    { signal },
  )

export const draw = (standIn: OpenAiStandIn, prompt: string, more: object = {}, signal?: AbortSignal) =>
  post(
    standIn,
    "/images/generations",
    { model: "gpt-image-1", prompt, size: "1024x1024", quality: "low", ...more },
    { signal },
  )

export const transcribe = (
  standIn: OpenAiStandIn,
  file: Uint8Array<ArrayBuffer>,
  fields: Record<string, string> = {},
  filename = "audio.wav",
  signal?: AbortSignal,
): Promise<Response> => {
  const form = new FormData()
  for (const [name, value] of Object.entries({ model: "whisper-1", ...fields })) form.append(name, value)
  form.append("file", new Blob([file], { type: "audio/wav" }), filename)
  return fetch(`${standIn.url}/audio/transcriptions`, {
    method: "POST",
    headers: authorized(standIn),
    body: form,
    redirect: "manual",
    signal: signal ?? null,
  })
}

/** One request to each endpoint that takes one, by name. */
export const requests = {
  transcription: (standIn: OpenAiStandIn, signal?: AbortSignal) =>
    transcribe(standIn, smallWav(1), {}, "audio.wav", signal),
  speech: (standIn: OpenAiStandIn, signal?: AbortSignal) => speak(standIn, "hello", {}, signal),
  chat: (standIn: OpenAiStandIn, signal?: AbortSignal) => ask(standIn, "hello", {}, signal),
  responses: (standIn: OpenAiStandIn, signal?: AbortSignal) =>
    post(standIn, "/responses", { model: "gpt-4o-mini", input: "hello", max_output_tokens: 50 }, { signal }),
  image: (standIn: OpenAiStandIn, signal?: AbortSignal) => draw(standIn, "a kiln", {}, signal),
  models: (standIn: OpenAiStandIn, signal?: AbortSignal) =>
    fetch(`${standIn.url}/models`, { headers: authorized(standIn), redirect: "manual", signal: signal ?? null }),
}

/** Eight bits, mono, 8000 samples a second. */
export const smallWav = (seconds: number, sample = 0x80): Uint8Array<ArrayBuffer> => {
  const data = Buffer.alloc(seconds * 8000, sample)
  const header = Buffer.alloc(44)
  header.write("RIFF")
  header.writeUInt32LE(36 + data.length, 4)
  header.write("WAVEfmt ", 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(8000, 24)
  header.writeUInt32LE(8000, 28)
  header.writeUInt16LE(1, 32)
  header.writeUInt16LE(8, 34)
  header.write("data", 36)
  header.writeUInt32LE(data.length, 40)
  return Uint8Array.from(Buffer.concat([header, data]))
}

export const bytesOf = async (response: Response): Promise<Buffer> => Buffer.from(await response.arrayBuffer())

/** Walks a PNG of two colors chunk by chunk; throws at the first thing that is wrong. */
export const pngSize = (file: Buffer): { readonly width: number; readonly height: number } => {
  if (file.toString("latin1", 0, 8) !== "\x89PNG\r\n\x1a\n") throw new Error("signature")
  const chunks = new Map<string, Buffer>()
  let at = 8
  while (at < file.length) {
    const end = at + 12 + file.readUInt32BE(at)
    if (end > file.length) throw new Error("a chunk ends past the file")
    if (slowCrc(file.subarray(at + 4, end - 4)) !== file.readUInt32BE(end - 4)) throw new Error("checksum")
    chunks.set(file.toString("latin1", at + 4, at + 8), file.subarray(at + 8, end - 4))
    at = end
  }
  if ([...chunks.keys()].join() !== "IHDR,PLTE,IDAT,IEND") throw new Error("chunks and their order")
  const width = chunks.get("IHDR")!.readUInt32BE(0)
  const height = chunks.get("IHDR")!.readUInt32BE(4)
  if (inflateSync(chunks.get("IDAT")!).length !== height * (1 + width / 8)) throw new Error("pixels")
  return { width, height }
}

/** The bit by bit definition. */
const slowCrc = (bytes: Uint8Array): number => {
  let crc = 0xffff_ffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb8_8320 : crc >>> 1
  }
  return (crc ^ 0xffff_ffff) >>> 0
}
