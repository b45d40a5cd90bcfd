import type { IncomingMessage, Server, ServerResponse } from "node:http"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type { StoreUnavailable } from "@kiln/core/domain"
import { IdGenerator } from "@kiln/core/ports"
import { Readiness } from "../Health.ts"
import { HttpConfig, type HttpSettings } from "../HttpConfig.ts"
import type { App } from "./app.ts"
import { expectContinue } from "./NodeSource.ts"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"
import { listen, ListenFailed, makeServer } from "./listen.ts"
import { type HttpNeeds, makeService, watchShutdown } from "./makeService.ts"
import { answerMalformedHttp } from "./malformedHttp.ts"
import { nodeListener } from "./nodeListener.ts"
import { isOnlyLocal, parsePublicUrl } from "./publicUrl.ts"
import { replaceableApp } from "./replaceableApp.ts"

/** A service that listens. */
export interface RunningService {
  /** The actual port, even if 0 was requested. */
  readonly port: number
  /** Base of absolute URLs, without a trailing slash. */
  readonly url: string
  /**
   * Applies new settings, except `host`, `port` and `socket`, and reads the signing keys in the store again. Requests that have
   * begun keep the previous settings; buckets of rate limits begin full. If it fails, the previous settings stay in effect.
   */
  readonly reload: (settings: HttpSettings) => Effect.Effect<void, HttpSettingInvalid | StoreUnavailable>
}

/** Listens until the scope closes. */
const serve: Effect.Effect<
  RunningService,
  HttpSettingInvalid | ListenFailed | StoreUnavailable,
  HttpNeeds | Scope.Scope
> = Effect.gen(function* () {
  const config = yield* HttpConfig
  const ids = yield* IdGenerator
  const readiness = yield* Readiness
  const needs = yield* Effect.context<HttpNeeds>()
  const server = makeServer()

  let port = config.port
  const shutdown = yield* watchShutdown
  const build = Effect.fnUntraced(function* (settings: HttpSettings) {
    const configuredUrl = yield* parsePublicUrl(settings.publicUrl)
    return yield* makeService({
      ...settings,
      publicUrl: () => configuredUrl ?? `http://127.0.0.1:${port}`,
      shutdown,
      playground: settings.playground ?? isOnlyLocal(settings.host, configuredUrl),
      prefix: "",
      routes: [],
      requireLiveWorker: true,
      askCaller: undefined,
    })
  })
  const { app, replace } = yield* replaceableApp(build, config)

  const requests = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
  yield* connect(server, app, requests)
  answerMalformedHttp(server, () => ids.next("req"))
  server.once("listening", () => {
    const address = server.address()
    if (typeof address === "object" && address !== null) port = address.port
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => void (shutdown.isStopping = true)))
  yield* listen(server, config)
  yield* Effect.addFinalizer(() => readiness.markStopping)
  return {
    port,
    url: (yield* parsePublicUrl(config.publicUrl)) ?? `http://127.0.0.1:${port}`,
    reload: (settings) => Effect.provide(replace(settings), needs),
  }
})

/** Runs the app for each request, in a scope that interrupts running requests when it closes. */
const connect = Effect.fnUntraced(function* (server: Server, app: App, scope: Scope.Scope): Effect.fn.Return<void> {
  const handle = yield* nodeListener(app, scope)
  const onRequest = (request: IncomingMessage, response: ServerResponse) => handle(request, response)
  server.on("request", onRequest)
  server.on("checkContinue", (request, response) => {
    expectContinue(request)
    onRequest(request, response)
  })
  // Any other expectation is ignored.
  server.on("checkExpectation", onRequest)
})

/**
 * The running HTTP service. When its scope closes, it stops accepting connections and closes idle ones. Requests that were
 * sent on open connections before get their responses, with `Connection: close`, for up to 20 s.
 */
export class HttpService extends Context.Service<HttpService, RunningService>()("@kiln/http/HttpService") {
  static readonly layer: Layer.Layer<HttpService, HttpSettingInvalid | ListenFailed | StoreUnavailable, HttpNeeds> =
    Layer.effect(HttpService, serve)
}

export { type HttpNeeds, HttpSettingInvalid, ListenFailed }
