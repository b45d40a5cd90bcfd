import { Context, Layer, type Redacted } from "effect"
import { HttpClientRequest } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { Authentication } from "../api/Authentication.ts"
import { KilnApi } from "../api/KilnApi.ts"

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

const layerBearer = (apiKey: Redacted.Redacted) =>
  HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
    next(HttpClientRequest.bearerToken(request, apiKey)),
  )
