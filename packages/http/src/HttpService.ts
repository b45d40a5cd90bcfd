import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type { StoreUnavailable } from "@kiln/core/domain"
import { HttpSettingInvalid } from "./server/HttpSettingInvalid.ts"
import { ListenFailed } from "./server/listen.ts"
import type { HttpNeeds } from "./server/makeService.ts"
import { type RunningService, serve } from "./server/serve.ts"

/**
 * The running HTTP service. When its scope closes, it stops accepting connections and closes idle ones. Requests that were
 * sent on open connections before get their responses, with `Connection: close`, for up to 20 s.
 */
export class HttpService extends Context.Service<HttpService, RunningService>()("@kiln/http/HttpService") {
  static readonly layer: Layer.Layer<HttpService, HttpSettingInvalid | ListenFailed | StoreUnavailable, HttpNeeds> =
    Layer.effect(HttpService, serve)
}

export { type HttpNeeds, HttpSettingInvalid, ListenFailed, type RunningService }
