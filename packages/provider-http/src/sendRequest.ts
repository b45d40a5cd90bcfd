import { type ProviderError, resultInvalid } from "@kiln/core/providers"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { classifyHttp } from "./classifyHttp.ts"
import { classifyThrown } from "./classifyThrown.ts"
import { readErrorCode } from "./readErrorCode.ts"

/** A complete 2xx response. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly data: Uint8Array<ArrayBuffer>
  /** Lower case, without parameters; `application/octet-stream` if not stated. */
  readonly mediaType: string
}

/**
 * Sends a request and reads the complete response. Fails with a provider error, classified by `classifyHttp` and
 * `classifyThrown`. Interruption aborts the request. Pass a `guardedFetch`, which limits the response.
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

/** Decodes the response as JSON of the given shape; fails with `result_invalid`. */
export const readJson = <A>(answer: HttpAnswer, schema: Schema.Codec<A, unknown>): Effect.Effect<A, ProviderError> =>
  Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(new TextDecoder().decode(answer.data)).pipe(
    Effect.mapError(() => resultInvalid("the response is not the expected JSON")),
  )

const mediaTypeOf = (response: Response): string =>
  response.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase() || "application/octet-stream"
