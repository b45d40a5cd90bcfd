import { type GeneratedFile, type ProviderError, type ProviderFailure, resultInvalid } from "@kiln/core/ports"
import { Effect } from "effect"
import { guardedFetch, type GuardedFetchOptions } from "./guardedFetch.ts"
import { sendRequest } from "./sendRequest.ts"

/**
 * Fetches a result that a provider gave as a URL, under the rules of `guardedFetch`. What is not there for the taking is
 * `result_invalid`: a URL that may not be fetched or is answered with a 404, a file that is empty or too large. A network
 * or a server that may do better later is `provider_unavailable`. Neither refuses the job or breaks the provider.
 */
export const downloadFile = (
  url: string | URL,
  {
    headers,
    ...options
  }: GuardedFetchOptions & {
    /** Sent along, to the origin of the URL only. */
    readonly headers?: Readonly<Record<string, string>> | undefined
  },
): Effect.Effect<GeneratedFile, ProviderFailure> =>
  Effect.sync(() => guardedFetch(options)).pipe(
    Effect.flatMap((fetch) =>
      URL.canParse(url.toString())
        ? sendRequest(fetch, url, { headers: { ...headers } }).pipe(Effect.mapError(asResult))
        : Effect.fail(resultInvalid("the result's address is no URL")),
    ),
    Effect.flatMap(({ data, mediaType }) =>
      data.byteLength === 0 ? Effect.fail(resultInvalid("the result is empty")) : Effect.succeed({ data, mediaType }),
    ),
  )

/** A 404 or 401 is about this one URL here, not about the provider's own address and key. */
const asResult = (error: ProviderError): ProviderFailure =>
  error._tag === "ProviderFailure" && error.retry ? error : resultInvalid(`result by URL: ${error.detail}`)
