import { type GeneratedFile, type ProviderError, type ProviderFailure, resultInvalid } from "@kiln/core/providers"
import * as Effect from "effect/Effect"
import { guardedFetch, type GuardedFetchOptions } from "./guardedFetch.ts"
import { sendRequest } from "./sendRequest.ts"

/**
 * Downloads a result that a provider returned as a URL, under the rules of `guardedFetch`. Fails with `result_invalid` if
 * the URL is refused or responds with a client error such as 404, or if the file is empty or too large; with
 * `provider_unavailable` after network failures and server errors. Neither refuses the job nor breaks the provider.
 */
export const downloadFile = (
  url: string | URL,
  {
    headers,
    ...options
  }: GuardedFetchOptions & {
    /** Request headers, sent only to the origin of the URL. */
    readonly headers?: Readonly<Record<string, string>> | undefined
  },
): Effect.Effect<GeneratedFile, ProviderFailure> =>
  Effect.sync(() => guardedFetch(options)).pipe(
    Effect.flatMap((fetch) =>
      URL.canParse(url.toString())
        ? sendRequest(fetch, url, { headers: { ...headers } }).pipe(Effect.mapError(asResult))
        : Effect.fail(resultInvalid("the result's address is not a URL")),
    ),
    Effect.flatMap(({ data, mediaType }) =>
      data.byteLength === 0 ? Effect.fail(resultInvalid("the result is empty")) : Effect.succeed({ data, mediaType }),
    ),
  )

/** Maps an error to a failed result: a 404 or 401 is about this URL, not about the provider's address and key. */
const asResult = (error: ProviderError): ProviderFailure =>
  error._tag === "ProviderFailure" && error.retry ? error : resultInvalid(`result by URL: ${error.detail}`)
