import { type ProviderError, resultInvalid } from "@kiln/core/ports"
import { Clock, Effect, Schema } from "effect"
import { classifyHttp } from "./classifyHttp.ts"
import { classifyThrown } from "./classifyThrown.ts"
import { readErrorCode } from "./readErrorCode.ts"

/** An answer of 2xx, whole. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly data: Uint8Array<ArrayBuffer>
  /** In lower case and without parameters; `application/octet-stream` where it is not said. */
  readonly mediaType: string
}

/**
 * Sends a request and reads the answer to its end. Fails with what a provider of kiln fails with, by `classifyHttp` and
 * `classifyThrown`. Interruption aborts the request. Give it a `guardedFetch`, which bounds the answer.
 */
export const sendRequest = (
  fetch: typeof globalThis.fetch,
  url: string | URL,
  init: Omit<RequestInit, "signal"> = {},
): Effect.Effect<HttpAnswer, ProviderError> =>
  Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(url, { ...init, signal })
      return { response, data: new Uint8Array(await response.arrayBuffer()) }
    },
    catch: classifyThrown,
  }).pipe(
    Effect.flatMap(({ response, data }) =>
      response.ok
        ? Effect.succeed({ status: response.status, headers: response.headers, data, mediaType: mediaTypeOf(response) })
        : Effect.flatMap(Clock.currentTimeMillis, (nowMs) => {
            const reported = readErrorCode(new TextDecoder().decode(data))
            return Effect.fail(classifyHttp({ status: response.status, headers: response.headers, ...reported, nowMs }))
          }),
    ),
  )

/** The answer as JSON of the given shape, or `result_invalid`. */
export const readJson = <A>(answer: HttpAnswer, schema: Schema.Codec<A, unknown>): Effect.Effect<A, ProviderError> =>
  Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(new TextDecoder().decode(answer.data)).pipe(
    Effect.mapError(() => resultInvalid("the answer is not the JSON that was expected")),
  )

const mediaTypeOf = (response: Response): string =>
  response.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase() || "application/octet-stream"
