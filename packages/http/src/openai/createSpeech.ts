import * as Effect from "effect/Effect"
import { type BodyBroken, readJsonObject } from "../server/body.ts"
import { asStep, Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import { refusalFor } from "../handlers/refusalFor.ts"
import { fieldProblem } from "./fields.ts"
import { modelsOf } from "./models.ts"
import type { OpenAiContext } from "./OpenAiContext.ts"
import { admitted, awaitEnd, createFor, offerOf } from "./runJob.ts"

const accepted = {
  response_format: ["mp3"],
  speed: [1],
  stream: [false],
  stream_format: ["audio"],
  instructions: [""],
}

/** `POST /openai/v1/audio/speech`: creates a job, waits for it and sends the file. */
export const createSpeech = (context: OpenAiContext): Handler =>
  Effect.fnUntraced(function* (exchange, _, clock): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    const now = () => clock.currentTimeMillisUnsafe()
    const offer = offerOf(context, "speech_synthesis")
    const grant = yield* admitted(context, exchange, offer.kind.keyScope, "create", clock)
    const body = yield* readJsonObject(exchange)
    yield* asStep(context.confirm(exchange, clock))
    const model = modelsOf(context.openAi, "speech_synthesis")
    const problem = fieldProblem(body, ["input", "voice"], { model, ...accepted })
    if (problem !== undefined) return yield* problem
    const untilMs = now() + context.openAi.waitMs
    const { input, voice } = body
    const request = { ...(input !== undefined && { input }), ...(voice !== undefined && { voice }) }
    const job = yield* createFor(context, exchange, grant, offer, { request, body, index: 0 })
    const end = yield* awaitEnd(context, exchange, grant, job, untilMs, clock)
    if ("reply" in end) return end.reply
    const [file] = end.done.files
    if (file === undefined) return yield* new Refusal({ code: "file_gone" })
    const opened = context.engine.openFile({ ...file, jobId: end.done.id })
    const { content } = yield* Effect.mapError(opened, (error) => refusalFor(error))
    const headers = {
      "content-type": file.mediaType,
      "content-length": String(file.bytes),
      "cache-control": "private, no-store",
    }
    return { status: 200, headers, body: content }
  })
