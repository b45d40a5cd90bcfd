import type { IncomingMessage, Server, ServerResponse } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Scope } from "effect"
import { Engine } from "@kiln/core/effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { IdGenerator, type KeyDirectory, type SecretStore } from "@kiln/core/ports"
import { Readiness } from "../Health.ts"
import { HttpConfig } from "../HttpConfig.ts"
import { pageRoutes } from "../pages/pageRoutes.ts"
import { makeRoutes } from "../Routes.ts"
import { parseTrustedProxies } from "../wire/ClientAddress.ts"
import { makeAdmit, makeConfirm } from "./admission.ts"
import { type App, makeApp } from "./app.ts"
import { makeAuthenticate } from "./Authenticator.ts"
import { expectContinue } from "./expectContinue.ts"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"
import { listen, type ListenFailed, makeServer } from "./listen.ts"
import { answerMalformedHttp } from "./malformedHttp.ts"
import { parsePublicUrl } from "./publicUrl.ts"
import { Router } from "./Router.ts"
import { signingKeyring } from "./signingKeyring.ts"

/** What the HTTP service works with. */
export type HttpNeeds = Engine | KeyDirectory | SecretStore | IdGenerator | Readiness

/** Listens until the scope closes. */
export const serve: Effect.Effect<
  { readonly port: number; readonly url: string },
  HttpSettingInvalid | ListenFailed | StoreUnavailable,
  HttpNeeds | Scope.Scope
> = Effect.gen(function* () {
  const config = yield* HttpConfig
  const engine = yield* Engine
  const ids = yield* IdGenerator
  const readiness = yield* Readiness
  const configuredUrl = yield* parsePublicUrl(config.publicUrl)
  const trustedProxies = yield* parseProxies(config.trustedProxies)
  const authenticate = yield* makeAuthenticate({ trustedProxies, failures: config.rateLimits.authentication })
  const server = makeServer()

  let port = config.port
  let stopping = false
  const publicUrl = () => configuredUrl ?? `http://127.0.0.1:${port}`
  const isStopping = () => stopping
  const routes = makeRoutes({
    engine,
    keyring: yield* signingKeyring(config.signingKeys),
    publicUrl,
    admit: makeAdmit(authenticate, config.rateLimits),
    confirm: makeConfirm(authenticate),
    readiness,
    isStopping,
  })
  const pages = config.pages ? yield* pageRoutes(engine, publicUrl) : []
  const newRequestId = ids.next("req")
  const app = makeApp({ router: new Router([...routes, ...pages]), newRequestId, isStopping })
  yield* readiness.add("store", Effect.as(engine.readBoard, true))

  const requests = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
  yield* connect(server, app, requests)
  answerMalformedHttp(server, () => Effect.runSync(newRequestId))
  server.once("listening", () => {
    const address = server.address()
    if (typeof address === "object" && address !== null) port = address.port
  })
  yield* listen(server, config)
  yield* Effect.addFinalizer(() => Effect.sync(() => void (stopping = true)))
  return { port, url: publicUrl() }
})

/** Runs the application for each request, in a scope whose end interrupts those still running. */
const connect = Effect.fnUntraced(function* (server: Server, app: App, scope: Scope.Scope): Effect.fn.Return<void> {
  const handle = yield* NodeHttpServer.makeHandler(app, { scope })
  const onRequest = (request: IncomingMessage, response: ServerResponse) => handle(request, response)
  server.on("request", onRequest)
  server.on("checkContinue", (request, response) => {
    expectContinue(request)
    onRequest(request, response)
  })
  // Any other expectation is a question this service has no opinion about.
  server.on("checkExpectation", onRequest)
})

const parseProxies = (configured: ReadonlyArray<string>) => {
  const parsed = parseTrustedProxies(configured.join(","))
  return parsed.ok
    ? Effect.succeed(parsed.proxies)
    : Effect.fail(new HttpSettingInvalid({ setting: "trustedProxies", problem: parsed.problem }))
}
