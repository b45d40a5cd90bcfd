import * as Effect from "effect/Effect"
import * as OpenApi from "effect/http-api/OpenApi"
import type { JobRoute } from "@kiln/client"
import { declareApi } from "@kiln/client/api"
import { wholeKind } from "@kiln/core/effect"
import { builtInKinds, type Kind, type Voices } from "@kiln/core/kinds"
import { offerKinds, type OfferedKinds } from "../handlers/offerKinds.ts"

/** The declaration of one installation, with the kinds it offers. */
export const installationApi = (serverUrl: string, offers: OfferedKinds) =>
  declareApi(
    [...offers.values()].map(({ route }) => route),
    serverUrl,
  )

export interface DocumentOptions {
  /** The address of the service. */
  readonly serverUrl: string
  /** The kinds of the engine; the built-in ones by default. */
  readonly kinds?: ReadonlyArray<Kind>
  /** The voices of the built-in kinds, where `kinds` is not given. */
  readonly voices?: Voices
  /** The routes of kinds that are not built in. */
  readonly routes?: ReadonlyArray<JobRoute>
}

/** The OpenAPI description of one installation. Throws `HttpSettingInvalid` for routes that cannot be. */
export const openApiDocument = ({ kinds, routes = [], serverUrl, voices }: DocumentOptions): OpenApi.OpenAPISpec => {
  const whole = kinds?.map(wholeKind) ?? builtInKinds(voices)
  return OpenApi.fromApi(installationApi(serverUrl, Effect.runSync(offerKinds(whole, routes))))
}
