import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { acceptedMediaTypes, type Grant, SNIFF_BYTES, sniffContainer } from "@kiln/core/domain"
import { BodyBroken, streamBody } from "../server/body.ts"
import type { Exchange } from "../server/Exchange.ts"
import { asStep } from "../server/Ready.ts"
import { Refusal } from "../server/Refusal.ts"
import { jsonReply, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { refusalFor } from "../handlers/refusalFor.ts"
import { fieldProblem, refuseField } from "./fields.ts"
import { models } from "./models.ts"
import { boundaryOf, MultipartReader } from "./multipart.ts"
import type { OpenAiContext } from "./OpenAiContext.ts"
import { awaitEnd, createFor, limitHeaders, offerOf } from "./runJob.ts"

const accepted = {
  model: models.transcription,
  response_format: ["json", "text", "verbose_json"],
  temperature: ["0"],
  stream: ["false"],
  language: [],
  prompt: [],
  chunking_strategy: ["auto"],
}
/** Maximum bytes of a plain field, and of a form without its file. */
const maxFieldBytes = 16_384
const maxFormBytes = 65_536
const formats = "flac and ogg are not supported: send mp3, mp4, m4a, wav or webm."

/** Bytes of a second of compressed audio: an estimate for files that do not contain their length. */
const bytesPerSecond = 16_000

/** Streams the file of the current part into a new upload. Returns its id and digest. */
const receive = Effect.fnUntraced(function* (
  context: OpenAiContext,
  exchange: Exchange,
  grant: Grant,
  reader: MultipartReader,
): Effect.fn.Return<{ readonly uploadId: string; readonly sha256: string }, Refusal | BodyBroken> {
  const head: Array<Uint8Array> = []
  let bytes = 0
  while (bytes < SNIFF_BYTES) {
    const piece = yield* reader.chunk
    if (piece === undefined) break
    head.push(piece)
    bytes += piece.length
  }
  if (bytes === 0) return yield* new Refusal({ code: "empty_file", param: "file" })
  const format = sniffContainer(Buffer.concat(head))
  if (format === undefined) return yield* refuseField("file", `The file is not audio of a known format; ${formats}`)
  const declaredSeconds = Math.min(900, Math.max(1, (exchange.contentLength ?? 60 * bytesPerSecond) / bytesPerSecond))
  const announced = context.engine.createUpload(grant, { format, declaredSeconds })
  const upload = yield* Effect.mapError(announced, (error) =>
    error._tag === "InvalidRequest" ? new Refusal({ code: "invalid_request" }) : refusalFor(error),
  )
  const digest = createHash("sha256")
  const content = Stream.map(Stream.concat(Stream.fromIterable(head), reader.content), (piece) => {
    digest.update(piece)
    return piece
  })
  const contentType = acceptedMediaTypes[format][0]
  const received = context.engine.receiveUpload({ uploadId: upload.id, contentType, contentLength: undefined, content })
  // A sender that goes away ends the transfer at once.
  yield* Effect.mapError(Effect.interruptible(received), (error) =>
    error instanceof BodyBroken || error instanceof Refusal ? error : refusalFor(error, "file"),
  )
  return { uploadId: upload.id, sha256: digest.digest("hex") }
})

const readForm = Effect.fnUntraced(function* (
  context: OpenAiContext,
  exchange: Exchange,
  grant: Grant,
  boundary: string,
): Effect.fn.Return<
  { readonly fields: Record<string, string>; readonly uploadId: string; readonly sha256: string },
  Refusal | BodyBroken
> {
  const read = Effect.gen(function* () {
    const reader = new MultipartReader(yield* Stream.toPull(streamBody(exchange)), boundary)
    const fields: Record<string, string> = Object.create(null) as Record<string, string>
    let file: { readonly uploadId: string; readonly sha256: string } | undefined
    for (let part = yield* reader.next; part !== undefined; part = yield* reader.next) {
      if (part.name === "file" && part.fileName !== undefined) {
        if (file !== undefined) return yield* refuseField("file", "The form has more than one file. Send one.")
        file = yield* receive(context, exchange, grant, reader)
      } else fields[part.name] = yield* reader.text(part.name.slice(0, 64), maxFieldBytes)
    }
    if (file === undefined) return yield* refuseField("file", "file is required: send it as a part with a filename.")
    return { fields, ...file }
  })
  return yield* Effect.scoped(read)
})

/** `POST /openai/v1/audio/transcriptions`: stores the file, creates a job, waits for it and returns the transcript. */
export const createTranscription = (context: OpenAiContext): Handler =>
  Effect.fnUntraced(function* (exchange, _, clock): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    const now = () => clock.currentTimeMillisUnsafe()
    const offer = offerOf(context, "transcription")
    const { maxBytes } = context.engine.settings.upload
    exchange.discardLimit = 2 * maxBytes
    const grant = yield* asStep(context.admit(exchange, offer.kind.keyScope, "create", clock))
    limitHeaders(exchange)
    const boundary = boundaryOf(exchange.singleHeader("content-type"))
    if (boundary === undefined)
      return yield* new Refusal({ code: "unsupported_content_type", details: { expected: ["multipart/form-data"] } })
    if ((exchange.contentLength ?? 0) > maxBytes + maxFormBytes)
      return yield* new Refusal({ code: "file_too_large", param: "file", details: { max_bytes: maxBytes } })
    const { fields, sha256, uploadId } = yield* readForm(context, exchange, grant, boundary)
    yield* asStep(context.confirm(exchange, clock))
    const problem = fieldProblem(fields, ["file"], accepted)
    if (problem !== undefined) return yield* problem
    const untilMs = now() + context.openAi.waitMs
    const body = [sha256, ...Object.entries(fields).toSorted()]
    const job = yield* createFor(context, exchange, grant, offer, { request: { upload_id: uploadId }, body, index: 0 })
    const end = yield* awaitEnd(context, exchange, grant, job, untilMs, now)
    if ("reply" in end) return end.reply
    const text = String(end.done.output?.["transcript"] ?? "")
    if (fields["response_format"] === "text")
      return {
        status: 200,
        headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" },
        body: `${text}\n`,
      }
    if (fields["response_format"] !== "verbose_json") return jsonReply(200, { text })
    const seconds = end.done.charge?.lineItems.find(({ meter }) => meter === "input_audio_seconds")?.quantity
    return jsonReply(200, {
      task: "transcribe",
      language: "unknown",
      text,
      ...(seconds !== undefined && { duration: seconds }),
    })
  })
