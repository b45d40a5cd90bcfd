import type { OpenAiEndpoint } from "../Endpoint.ts"
import { chat } from "./chat.ts"
import { image, imageFile, imagePath } from "./image.ts"
import { responses } from "./responses.ts"
import { CREATED_AT_SECONDS, json, type Service } from "./Service.ts"
import { speech } from "./speech.ts"
import { transcription } from "./transcription.ts"

const models: Service<"models"> = {
  read: ({ path }) => ({ path }),
  answer: (_request, value, surroundings) =>
    json({
      object: "list",
      data: (value?.models ?? surroundings.models).map((id) => ({
        id,
        object: "model",
        created: CREATED_AT_SECONDS,
        owned_by: "stand-in",
      })),
    }),
}

export const services: { readonly [E in OpenAiEndpoint]: Service<E> } = {
  transcription,
  speech,
  chat,
  responses,
  image,
  imageFile,
  models,
}

const paths: Readonly<Record<string, { readonly method: string; readonly endpoint: OpenAiEndpoint }>> = {
  "/v1/audio/transcriptions": { method: "POST", endpoint: "transcription" },
  "/v1/audio/speech": { method: "POST", endpoint: "speech" },
  "/v1/chat/completions": { method: "POST", endpoint: "chat" },
  "/v1/responses": { method: "POST", endpoint: "responses" },
  "/v1/images/generations": { method: "POST", endpoint: "image" },
  "/v1/models": { method: "GET", endpoint: "models" },
}

export type Route = OpenAiEndpoint | "wrongMethod" | "nowhere"

export const routeOf = (method: string, path: string): Route => {
  const found = imagePath.test(path)
    ? { method: "GET", endpoint: "imageFile" as const }
    : Object.hasOwn(paths, path)
      ? paths[path]
      : undefined
  if (found === undefined) return "nowhere"
  return found.method === method ? found.endpoint : "wrongMethod"
}
