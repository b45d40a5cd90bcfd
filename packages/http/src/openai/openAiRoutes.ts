import * as Effect from "effect/Effect"
import { Refusal } from "../server/Refusal.ts"
import { jsonReply } from "../server/Reply.ts"
import type { Handler, Route } from "../server/Router.ts"
import { createImages } from "./createImages.ts"
import { createSpeech } from "./createSpeech.ts"
import { createTranscription } from "./createTranscription.ts"
import { models } from "./models.ts"
import type { OpenAiContext } from "./OpenAiContext.ts"
import { admitted } from "./runJob.ts"

const modelIds = [...new Set<string>(Object.values(models).flat())]
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
export const openAiRoutes = (context: OpenAiContext): ReadonlyArray<Route> => [
  { method: "POST", path: "/openai/v1/audio/speech", handle: createSpeech(context) },
  { method: "POST", path: "/openai/v1/audio/transcriptions", handle: createTranscription(context) },
  { method: "POST", path: "/openai/v1/images/generations", handle: createImages(context) },
  {
    method: "GET",
    path: "/openai/v1/models",
    handle: listing(context, () => jsonReply(200, { object: "list", data: modelIds.map(modelBody) })),
  },
  {
    method: "GET",
    path: "/openai/v1/models/:id",
    handle: listing(context, (id) =>
      modelIds.includes(id)
        ? jsonReply(200, modelBody(id))
        : new Refusal({
            code: "not_found",
            message: `This model does not exist. The models are ${modelIds.join(", ")}.`,
          }),
    ),
  },
]
