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
 * One service, asked with one key: a method for each declared endpoint, by group. Requests and answers are checked against
 * the declarations. Refusals are the declared bodies, so that `error.error.code` tells which one it is, and its
 * `details`; the rest is `HttpClientError`, or `SchemaError` where one side does not keep to the declarations. Nothing is
 * repeated by itself: give the effects a schedule.
 */
export class KilnClient extends Context.Service<KilnClient, HttpApiClient.ForApi<typeof KilnApi>>()(
  "@kiln/client/effect/KilnClient",
) {
  /** Over the `HttpClient` of your choice, for example `FetchHttpClient.layer`. */
  static readonly layer = ({ apiKey, baseUrl }: KilnClientOptions) =>
    Layer.effect(KilnClient, HttpApiClient.make(KilnApi, { baseUrl })).pipe(Layer.provide(layerBearer(apiKey)))
}

/** Makes a client that has methods for the built-in kinds and for these routes: `jobRoute` makes them. */
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
