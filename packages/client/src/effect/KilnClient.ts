import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import { Authentication } from "../api/Authentication.ts"
import { builtInRoutes } from "../api/builtInRoutes.ts"
import { type ApiOf, declareApi } from "../api/declareApi.ts"
import { KilnApi } from "../api/KilnApi.ts"
import type { JobRoute } from "../routes/jobRoute.ts"

export interface KilnClientOptions {
  /** For example `https://kiln.example.com`, with the prefix the service is mounted under, if any; without `/v1`. */
  readonly baseUrl: string
  /** `kiln_test_…` or `kiln_live_…`. */
  readonly apiKey: Redacted.Redacted
}

/**
 * A client for one service and one key, with a method for each declared endpoint, by group. Requests and responses are checked
 * against the declarations. Errors of the service are the declared bodies, with `error.error.code` and its `details`. Other
 * failures are `HttpClientError`, or `SchemaError` if one side violates the declarations. Nothing is retried automatically: give
 * the effects a schedule.
 */
export class KilnClient extends Context.Service<KilnClient, HttpApiClient.ForApi<typeof KilnApi>>()(
  "@kiln/client/effect/KilnClient",
) {
  /** Builds the client on an `HttpClient`, for example `FetchHttpClient.layer`. */
  static readonly layer = ({ apiKey, baseUrl }: KilnClientOptions) =>
    Layer.effect(KilnClient, HttpApiClient.make(KilnApi, { baseUrl })).pipe(Layer.provide(layerBearer(apiKey)))
}

/** Creates a client with methods for the built-in kinds and for these routes, which `jobRoute` creates. */
export const makeKilnClient = <const Routes extends ReadonlyArray<JobRoute>>({
  apiKey,
  baseUrl,
  routes,
}: KilnClientOptions & { readonly routes: Routes }): Effect.Effect<
  HttpApiClient.ForApi<ApiOf<readonly [...typeof builtInRoutes, ...Routes]>>,
  never,
  HttpClient.HttpClient
> => {
  const api = declareApi([...builtInRoutes, ...routes] as const)
  return Effect.provide(HttpApiClient.make(api, { baseUrl }), layerBearer(apiKey)) as never
}

const layerBearer = (apiKey: Redacted.Redacted) =>
  HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
    next(HttpClientRequest.bearerToken(request, apiKey)),
  )
