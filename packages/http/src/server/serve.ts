import type { IncomingMessage, Server, ServerResponse } from "node:http"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import { IdGenerator } from "@kiln/core/ports"
import { HttpConfig } from "../HttpConfig.ts"
import type { App } from "./app.ts"
import { expectContinue } from "./expectContinue.ts"
import type { HttpSettingInvalid } from "./HttpSettingInvalid.ts"
import { listen, type ListenFailed, makeServer } from "./listen.ts"
import { type HttpNeeds, makeService } from "./makeService.ts"
import { answerMalformedHttp } from "./malformedHttp.ts"
import { nodeListener } from "./nodeListener.ts"
import { parsePublicUrl } from "./publicUrl.ts"

/** Listens until the scope closes. */
export const serve: Effect.Effect<
  { readonly port: number; readonly url: string },
  HttpSettingInvalid | ListenFailed | StoreUnavailable,
  HttpNeeds | Scope.Scope
> = Effect.gen(function* () {
  const config = yield* HttpConfig
  const ids = yield* IdGenerator
  const configuredUrl = yield* parsePublicUrl(config.publicUrl)
  const server = makeServer()

  let port = config.port
  let stopping = false
  const publicUrl = () => configuredUrl ?? `http://127.0.0.1:${port}`
  const isStopping = () => stopping
  const app = yield* makeService({
    ...config,
    publicUrl,
    isStopping,
    prefix: "",
    routes: [],
    requireLiveWorker: true,
    askCaller: undefined,
  })

  const requests = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
  yield* connect(server, app, requests)
  answerMalformedHttp(server, () => ids.next("req"))
  server.once("listening", () => {
    const address = server.address()
    if (typeof address === "object" && address !== null) port = address.port
  })
  yield* listen(server, config)
  yield* Effect.addFinalizer(() => Effect.sync(() => void (stopping = true)))
  return { port, url: publicUrl() }
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
