import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Job } from "@kiln/core/domain"
import { type BodyBroken, readJsonObject } from "../server/body.ts"
import { asStep, jsonReply, Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import { refusalFor } from "../handlers/refusalFor.ts"
import { fileUrlExpiry, signDownload } from "../wire/SignedUrls.ts"
import { fieldProblem, refuseField } from "./fields.ts"
import { modelsOf } from "./models.ts"
import type { OpenAiContext } from "./OpenAiContext.ts"
import { admitted, awaitEnd, createFor, offerOf } from "./runJob.ts"

const accepted = {
  response_format: ["url", "b64_json"],
  size: ["1024x1024", "auto"],
  quality: ["auto", "standard"],
  output_format: ["png"],
  background: ["auto"],
  moderation: ["auto"],
  stream: [false],
  partial_images: [0],
  output_compression: [100],
  // The default, which some clients always send.
  style: ["vivid"],
  user: ["*"],
}
const mostImages = 4

/** `POST /openai/v1/images/generations`: creates a job for each image, waits for them and returns URLs or bytes. */
export const createImages = (context: OpenAiContext): Handler =>
  Effect.fnUntraced(function* (exchange, _, clock): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    const now = () => clock.currentTimeMillisUnsafe()
    const offer = offerOf(context, "image_generation")
    const grant = yield* admitted(context, exchange, offer.kind.keyScope, "create", clock)
    const body = yield* readJsonObject(exchange)
    yield* asStep(context.confirm(exchange, clock))
    const model = modelsOf(context.openAi, "image_generation")
    const problem = fieldProblem(body, ["prompt", "n"], { model, ...accepted })
    if (problem !== undefined) return yield* problem
    const n = body["n"] ?? 1
    if (typeof n !== "number" || !Number.isInteger(n) || n < 1 || n > mostImages)
      return yield* refuseField("n", `n must be an integer from 1 to ${mostImages}.`)
    const untilMs = now() + context.openAi.waitMs
    const request = body["prompt"] === undefined ? {} : { prompt: body["prompt"] }
    const jobs: Array<Job> = []
    for (let index = 0; index < n; index += 1)
      jobs.push(yield* createFor(context, exchange, grant, offer, { request, body, index }))
    // Clients of the newer models read `b64_json`, those of the older ones `url`.
    const isNewer = typeof body["model"] === "string" && body["model"].startsWith("gpt-image")
    const asBytes = (body["response_format"] ?? (isNewer ? "b64_json" : "url")) === "b64_json"
    const data: Array<object> = []
    for (const job of jobs) {
      const end = yield* awaitEnd(context, exchange, grant, job, untilMs, clock)
      if ("reply" in end) return end.reply
      const [file] = end.done.files
      if (file === undefined) return yield* new Refusal({ code: "file_gone" })
      if (asBytes) {
        const opened = Effect.flatMap(context.engine.openFile({ ...file, jobId: end.done.id }), ({ content }) =>
          Stream.runCollect(content),
        )
        const pieces = yield* Effect.mapError(opened, (error) => refusalFor(error))
        data.push({ b64_json: Buffer.concat([...pieces]).toString("base64") })
      } else {
        const place = { publicUrl: context.publicUrl(), fileId: file.id, expiresAtSeconds: fileUrlExpiry(now()) }
        data.push({ url: signDownload(context.keyring, place) })
      }
    }
    return jsonReply(200, { created: Math.floor(now() / 1_000), data, output_format: "png", size: "1024x1024" })
  })
