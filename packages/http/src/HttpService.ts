import { Context, Layer } from "effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { HttpSettingInvalid } from "./server/HttpSettingInvalid.ts"
import { ListenFailed } from "./server/listen.ts"
import type { HttpNeeds } from "./server/makeService.ts"
import { serve } from "./server/serve.ts"

/**
 * The HTTP service, listening. When its scope closes it stops accepting, lets requests in flight
 * finish for up to 20 s, and answers later ones on open connections with 503.
 */
export class HttpService extends Context.Service<
  HttpService,
  {
    /** The actual port, also where 0 was asked for. */
    readonly port: number
    /** What absolute URLs begin with, without a slash at the end. */
    readonly url: string
  }
>()("@kiln/http/HttpService") {
  static readonly layer: Layer.Layer<HttpService, HttpSettingInvalid | ListenFailed | StoreUnavailable, HttpNeeds> =
    Layer.effect(HttpService, serve)
}

export { type HttpNeeds, HttpSettingInvalid, ListenFailed }
