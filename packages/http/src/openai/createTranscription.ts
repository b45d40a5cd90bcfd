import { createHash } from "node:crypto"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { FileTooLarge } from "@kiln/core"
import { acceptedMediaTypes, type Grant, type Job, SNIFF_BYTES, sniffContainer } from "@kiln/core/domain"
import { BodyBroken, streamBody } from "../server/body.ts"
import { asStep, type Exchange, jsonReply, Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import { refusalFor } from "../handlers/refusalFor.ts"
import { fieldProblem, refuseField } from "./fields.ts"
import { modelsOf } from "./models.ts"
import { boundaryOf, MultipartReader } from "./multipart.ts"
import type { OpenAiContext } from "./OpenAiContext.ts"
import { admitted, awaitEnd, createFor, isRepeatable, offerOf } from "./runJob.ts"

const accepted = {
  response_format: ["json", "text", "verbose_json"],
  temperature: ["0"],
  stream: ["false"],
  language: [],
  prompt: [],
  chunking_strategy: ["auto"],
  "timestamp_granularities[]": [],
  "include[]": [],
}
/** Maximum bytes of a plain field, and of a form without its file. */
const maxFieldBytes = 16_384
const maxFormBytes = 65_536
const emptyFile = "The file is empty: choose a file with audio in it."
const formats = "flac and ogg are not supported: send mp3, mp4, m4a, wav or webm."

/** Bytes of a second of compressed audio: an estimate for files that do not contain their length. */
const bytesPerSecond = 16_000

/** Milliseconds during which a received file waits for its job, which is created at once. */
const marginMs = 60_000

/** A retry has the job of an earlier request, so its file is not kept. */
class Joined extends Data.TaggedError("Joined")<{ readonly job: Job }> {}

type Fields = Record<string, string>

/** A file that was received for a job, which does not exist yet. */
interface Received {
  readonly uploadId: string
  readonly body: unknown
}

/**
 * Streams the file of the current part into a new upload. It is kept only if `rest`, which reads the fields after the file, succeeds: a
 * client that hangs up and a form that is refused leave no file, and nothing that counts against the cap of uploads.
 */
const receive = Effect.fnUntraced(function* (
  context: OpenAiContext,
  exchange: Exchange,
  grant: Grant,
  reader: MultipartReader,
  rest: (file: {
    readonly uploadId: string
    readonly sha256: string
  }) => Effect.Effect<void, Refusal | BodyBroken | Joined>,
): Effect.fn.Return<string, Refusal | BodyBroken | Joined> {
  const head: Array<Uint8Array> = []
  let bytes = 0
  while (bytes < SNIFF_BYTES) {
    const piece = yield* reader.chunk
    if (piece === undefined) break
    head.push(piece)
    bytes += piece.length
  }
  if (bytes === 0) return yield* new Refusal({ code: "empty_file", param: "file", message: emptyFile })
  const format = sniffContainer(Buffer.concat(head))
  if (format === undefined) return yield* refuseField("file", `The file is not audio of a known format; ${formats}`)
  const declaredSeconds = Math.min(900, Math.max(1, (exchange.contentLength ?? 60 * bytesPerSecond) / bytesPerSecond))
  // Without a window, an upload counts as waiting only while its transfer runs and once it is complete.
  const lifetime = { transferWindowMs: 0, usableForMs: context.engine.settings.upload.transferLimitMs + marginMs }
  const announced = context.engine.createUpload(grant, { format, declaredSeconds }, lifetime)
  const { id: uploadId } = yield* Effect.mapError(announced, (error) =>
    error._tag === "InvalidRequest" ? new Refusal({ code: "invalid_request" }) : refusalFor(error),
  )
  const digest = createHash("sha256")
  const file = Stream.map(Stream.concat(Stream.fromIterable(head), reader.content), (piece) => {
    digest.update(piece)
    return piece
  })
  const ending = Effect.suspend(() => rest({ uploadId, sha256: digest.digest("hex") }))
  const content = Stream.concat(file, Stream.drain(Stream.fromEffect(ending)))
  const contentType = acceptedMediaTypes[format][0]
  const received = context.engine.receiveUpload({
    uploadId,
    contentType,
    contentLength: undefined,
    isImmediate: true,
    content,
  })
  // A sender that goes away ends the transfer at once.
  yield* Effect.mapError(Effect.interruptible(received), (error) =>
    error instanceof BodyBroken || error instanceof Refusal || error instanceof Joined
      ? error
      : refusalFor(error, "file"),
  )
  return uploadId
})

/** Reads a form. `join` fails with `Joined` if an earlier request has made the job. */
const readForm = Effect.fnUntraced(function* (
  context: OpenAiContext,
  exchange: Exchange,
  grant: Grant,
  boundary: string,
  fields: Fields,
  join: (received: Received) => Effect.Effect<void, Refusal | Joined>,
): Effect.fn.Return<Received, Refusal | BodyBroken | Joined> {
  const read = Effect.gen(function* () {
    const reader = new MultipartReader(yield* Stream.toPull(streamBody(exchange)), boundary)
    /** Reads plain fields up to the file or the end. Returns whether a file follows. */
    const readFields = Effect.gen(function* () {
      for (let part = yield* reader.next; part !== undefined; part = yield* reader.next) {
        if (part.name === "file" && part.fileName !== undefined) return true
        fields[part.name] = yield* reader.text(part.name.slice(0, 64), maxFieldBytes)
      }
      return false
    })
    const checkFields = Effect.suspend(() => {
      const problem = fieldProblem(fields, ["file"], { model: modelsOf(context.openAi, "transcription"), ...accepted })
      return problem === undefined ? Effect.void : Effect.fail(problem)
    })
    const hasFile = yield* readFields
    yield* checkFields
    if (!hasFile) return yield* refuseField("file", "file is required: send it as a part with a filename.")
    let body: unknown
    const rest = Effect.fnUntraced(function* (file: { readonly uploadId: string; readonly sha256: string }) {
      if (yield* readFields) return yield* refuseField("file", "The form has more than one file. Send one.")
      yield* checkFields
      body = [file.sha256, ...Object.entries(fields).toSorted(([one], [other]) => (one < other ? -1 : 1))]
      yield* join({ uploadId: file.uploadId, body })
    })
    return { uploadId: yield* receive(context, exchange, grant, reader, rest), body }
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
    const grant = yield* admitted(context, exchange, offer.kind.keyScope, "create", clock)
    const boundary = boundaryOf(exchange.singleHeader("content-type"))
    if (boundary === undefined)
      return yield* new Refusal({
        code: "unsupported_content_type",
        message: "Send multipart/form-data with a boundary, and the audio in the part named file.",
        details: { expected: ["multipart/form-data"] },
      })
    if ((exchange.contentLength ?? 0) > maxBytes + maxFormBytes)
      return yield* refusalFor(new FileTooLarge({ maxBytes }), "file")
    const fields: Fields = Object.create(null) as Fields
    const create = ({ body, uploadId }: Received) =>
      createFor(context, exchange, grant, offer, {
        request: { upload_id: uploadId },
        body,
        index: 0,
        isComparedByBody: true,
      })
    // A repeated request gets its job before the file is kept; a new one is told that the file is not there yet.
    const join = (received: Received) =>
      isRepeatable(exchange)
        ? create(received).pipe(
            Effect.flatMap((job) => Effect.fail(new Joined({ job }))),
            Effect.catchIf(
              (error) => error instanceof Refusal && error.code === "upload_not_ready",
              () => Effect.void,
            ),
          )
        : Effect.void
    const job = yield* readForm(context, exchange, grant, boundary, fields, join).pipe(
      Effect.tap(() => asStep(context.confirm(exchange, clock))),
      Effect.flatMap(create),
      Effect.catchTag("Joined", (joined) => Effect.as(asStep(context.confirm(exchange, clock)), joined.job)),
    )
    const untilMs = now() + context.openAi.waitMs
    const end = yield* awaitEnd(context, exchange, grant, job, untilMs, clock)
    if ("reply" in end) return end.reply
    const transcript = end.done.output?.["transcript"]
    const text = typeof transcript === "string" ? transcript : ""
    if (fields["response_format"] === "text")
      return {
        status: 200,
        headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" },
        body: `${text}\n`,
      }
    if (fields["response_format"] !== "verbose_json") return jsonReply(200, { text })
    const seconds = end.done.output?.["seconds"]
    return jsonReply(200, {
      task: "transcribe",
      language: "unknown",
      text,
      ...(typeof seconds === "number" && { duration: seconds }),
    })
  })
