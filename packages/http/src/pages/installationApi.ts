import { Context, Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { apiOf, type DocumentOptions as ApiOptions } from "@kiln/client/api"
import type { JobKind, Kind } from "@kiln/core/effect"
import type { JobRoute } from "../handlers/JobRoute.ts"
import { offerKinds, type Offers } from "../handlers/offerKinds.ts"
import { describeOffers } from "./describeOffers.ts"

/** The declaration of one installation, with the kinds it offers. */
export const installationApi = (options: ApiOptions, offers: Offers | undefined): ReturnType<typeof apiOf> => {
  const api = apiOf(options)
  const transform = Context.getOrUndefined(api.annotations, OpenApi.Transform)
  if (offers === undefined || transform === undefined) return api
  return api.annotateMerge(OpenApi.annotations({ transform: (spec) => describeOffers(transform(spec), offers) }))
}

export interface DocumentOptions extends ApiOptions {
  /** The kinds of the engine and the routes of those that are not built in; without kinds, the built-in ones are described. */
  readonly kinds?: ReadonlyArray<Kind>
  readonly routes?: ReadonlyArray<JobRoute>
}

/** The OpenAPI description of one installation. Throws `HttpSettingInvalid` for routes that cannot be. */
export const openApiDocument = ({ kinds, routes = [], ...options }: DocumentOptions): OpenApi.OpenAPISpec => {
  // Whatever makes kinds makes whole ones; their public type only hides what is inside.
  const whole = kinds as ReadonlyArray<JobKind> | undefined
  const offers = whole === undefined ? undefined : Effect.runSync(offerKinds(whole, routes))
  return OpenApi.fromApi(installationApi(options, offers))
}
