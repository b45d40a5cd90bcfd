import * as Effect from "effect/Effect"
import { jsonReply, Refusal } from "../server/Exchange.ts"
import type { Handler, Route } from "../server/app.ts"
import { createImages } from "./createImages.ts"
import { createSpeech } from "./createSpeech.ts"
import { createTranscription } from "./createTranscription.ts"
import { modelsOf, openAiKinds } from "./models.ts"
import type { OpenAiContext } from "./OpenAiContext.ts"
import { admitted } from "./runJob.ts"

const modelBody = (id: string) => ({ id, object: "model", created: 1_767_225_600, owned_by: "kiln" })

/** Any key may list the models. */
const listing = (context: OpenAiContext, reply: (id: string) => ReturnType<typeof jsonReply> | Refusal): Handler =>
  Effect.fnUntraced(function* (exchange, id, clock) {
    yield* Effect.catchIf(
      admitted(context, exchange, "audio.create", "read", clock),
      ({ code }) => code === "insufficient_scope",
      () => admitted(context, exchange, "images.create", "read", clock),
    )
    const answer = reply(id)
    return answer instanceof Refusal ? yield* answer : answer
  })

/** The endpoints of OpenAI's API. Each request is an ordinary job that is waited for. */
export const openAiRoutes = (context: OpenAiContext): ReadonlyArray<Route> => {
  const ids = [...new Set(openAiKinds.flatMap((kind) => modelsOf(context.openAi, kind)))]
  const listModels = () => jsonReply(200, { object: "list", data: ids.map(modelBody) })
  const getModel = (segment: string) => {
    // Names of models may contain slashes.
    const id = ids.find((model) => segment === model || segment === encodeURIComponent(model))
    if (id !== undefined) return jsonReply(200, modelBody(id))
    return new Refusal({ code: "not_found", message: `This model does not exist. The models are ${ids.join(", ")}.` })
  }
  return [
    { method: "POST", path: "/openai/v1/audio/speech", handle: createSpeech(context) },
    { method: "POST", path: "/openai/v1/audio/transcriptions", handle: createTranscription(context) },
    { method: "POST", path: "/openai/v1/images/generations", handle: createImages(context) },
    { method: "GET", path: "/openai/v1/models", handle: listing(context, listModels) },
    { method: "GET", path: "/openai/v1/models/:id", handle: listing(context, getModel) },
  ]
}
