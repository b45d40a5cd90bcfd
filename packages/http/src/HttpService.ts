import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type { StoreUnavailable } from "@kiln/core/domain"
import { HttpSettingInvalid } from "./server/HttpSettingInvalid.ts"
import { ListenFailed } from "./server/listen.ts"
import type { HttpNeeds } from "./server/makeService.ts"
import { serve } from "./server/serve.ts"

/**
 * The running HTTP service. When its scope closes, it stops accepting connections, lets requests in flight finish for up
 * to 20 s, and responds to later requests on open connections with 503.
 */
export class HttpService extends Context.Service<
  HttpService,
  {
    /** The actual port, even if 0 was requested. */
    readonly port: number
    /** Base of absolute URLs, without a trailing slash. */
    readonly url: string
  }
>()("@kiln/http/HttpService") {
  static readonly layer: Layer.Layer<HttpService, HttpSettingInvalid | ListenFailed | StoreUnavailable, HttpNeeds> =
    Layer.effect(HttpService, serve)
}

export { type HttpNeeds, HttpSettingInvalid, ListenFailed }
