import { Effect, type Scope } from "effect"
import { Engine } from "@kiln/core/effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { IdGenerator, type KeyDirectory, type SecretStore } from "@kiln/core/ports"
import { Readiness } from "../Health.ts"
import type { HttpSettings } from "../HttpConfig.ts"
import { offerKinds } from "../handlers/offerKinds.ts"
import type { JobRoute } from "@kiln/client/api"
import { pageRoutes } from "../pages/pageRoutes.ts"
import { makeRoutes } from "../Routes.ts"
import { parseTrustedProxies } from "../wire/ClientAddress.ts"
import { makeAdmit, makeConfirm } from "./admission.ts"
import { type App, makeApp } from "./app.ts"
import { makeAuthenticate } from "./Authenticator.ts"
import { type AskCaller, makeAuthenticateCaller } from "./callerAuthentication.ts"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"
import { limitAddresses } from "./limitAddresses.ts"
import { Router } from "./Router.ts"
import { signingKeyring } from "./signingKeyring.ts"

/** What the HTTP service works with. */
export type HttpNeeds = Engine | KeyDirectory | SecretStore | IdGenerator | Readiness

export interface ServiceOptions extends Pick<HttpSettings, "trustedProxies" | "rateLimits" | "signingKeys" | "pages"> {
  /** What absolute URLs begin with, the prefix included, without a slash at the end. */
  readonly publicUrl: () => string
  /** What the paths of requests begin with: `/api/kiln`, or empty. Signatures do not cover it. */
  readonly prefix: string
  /** Kinds besides the built-in ones. */
  readonly routes: ReadonlyArray<JobRoute>
  /** Whether a live job is refused when no worker has served its type live within the queue limit. */
  readonly requireLiveWorker: boolean
  /** Who sends a request; by API key when undefined. */
  readonly askCaller: AskCaller | undefined
  readonly isStopping: () => boolean
}

/** Milliseconds an answer of the store is good for: anybody may ask whether the service is ready, as often as they like. */
const storeCheckMs = 500

/** The service without a server: what every server it can live in hands its requests to. */
export const makeService = Effect.fnUntraced(function* (
  options: ServiceOptions,
): Effect.fn.Return<App, HttpSettingInvalid | StoreUnavailable, HttpNeeds | Scope.Scope> {
  const { isStopping, prefix, publicUrl, rateLimits } = options
  const engine = yield* Engine
  const ids = yield* IdGenerator
  const readiness = yield* Readiness
  const trustedProxies = yield* parseProxies(options.trustedProxies)
  const failing = { trustedProxies, failures: rateLimits.authentication }
  const authenticate =
    options.askCaller === undefined
      ? yield* makeAuthenticate(failing)
      : makeAuthenticateCaller(failing, options.askCaller)
  const offers = yield* offerKinds(engine.kinds, options.routes)
  const routes = makeRoutes({
    engine,
    offers,
    keyring: yield* signingKeyring(options.signingKeys),
    publicUrl,
    requireLiveWorker: options.requireLiveWorker,
    admit: makeAdmit(authenticate, rateLimits),
    confirm: makeConfirm(authenticate),
    readiness,
    isStopping,
  })
  const pages = options.pages
    ? yield* pageRoutes(offers, publicUrl, limitAddresses(rateLimits.pages, trustedProxies))
    : []
  const router = yield* Effect.try({
    try: () => new Router([...routes, ...pages]),
    catch: (error) => new HttpSettingInvalid({ setting: "routes", problem: String(error) }),
  })
  yield* readiness.add("store", Effect.as(engine.readBoard, true), storeCheckMs)
  return makeApp({ router, newRequestId: ids.next("req"), isStopping, prefix })
})

const parseProxies = (configured: ReadonlyArray<string>) => {
  const parsed = parseTrustedProxies(configured.join(","))
  return parsed.ok
    ? Effect.succeed(parsed.proxies)
    : Effect.fail(new HttpSettingInvalid({ setting: "trustedProxies", problem: parsed.problem }))
}
