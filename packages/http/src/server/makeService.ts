import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { Engine } from "@kiln/core/effect"
import type { KeyLimits, StoreUnavailable } from "@kiln/core/domain"
import { BlobStore, IdGenerator, type KeyDirectory, RateLimitStore, type SecretStore } from "@kiln/core/ports"
import { Readiness } from "../Health.ts"
import type { HttpSettings } from "../HttpConfig.ts"
import { HttpObserver } from "../HttpObserver.ts"
import { offerKinds } from "../handlers/offerKinds.ts"
import type { JobRoute } from "@kiln/client"
import { openAiRoutes } from "../openai/openAiRoutes.ts"
import { pageRoutes } from "../pages/pageRoutes.ts"
import { makeRoutes } from "../Routes.ts"
import { parseTrustedProxies } from "../wire/ClientAddress.ts"
import { confirmKeyMs, makeAdmit, makeAuthenticate, makeConfirm } from "./admission.ts"
import { type KeyLimiters, limitReads, localKeyLimiter, SharedKeyLimiter } from "./rateLimits.ts"
import { type App, makeApp, Router, type Shutdown } from "./app.ts"
import { type AskCaller, makeAuthenticateCaller } from "./callerAuthentication.ts"
import { HttpSettingInvalid } from "./HttpSettingInvalid.ts"
import { makeJobWaits } from "./JobWaits.ts"
import { limitAddresses } from "./limitAddresses.ts"
import { signingKeyring } from "./signingKeyring.ts"

/** Services required by the HTTP service. */
export type HttpNeeds = Engine | KeyDirectory | SecretStore | IdGenerator | Readiness

export interface ServiceOptions extends Pick<
  HttpSettings,
  "trustedProxies" | "rateLimits" | "signingKeys" | "pages" | "redirectFiles" | "openAi"
> {
  /** Returns the base of absolute URLs, including the prefix, without a trailing slash. */
  readonly publicUrl: () => string
  /** Prefix of request paths: `/api/kiln`, or empty. Not covered by signatures. */
  readonly prefix: string
  /** Whether the page at `/` issues sandbox keys to its visitors. */
  readonly playground: boolean
  /** Routes of custom kinds. */
  readonly routes: ReadonlyArray<JobRoute>
  /** Whether a live job is rejected if no worker has served its type live within the queue limit. */
  readonly requireLiveWorker: boolean
  /** Identifies the caller; API keys are used when undefined. */
  readonly askCaller: AskCaller | undefined
  readonly shutdown: Shutdown
}

/** Milliseconds for which the result of the store check is cached, because readiness is public and may be polled often. */
const storeCheckMs = 500

/** Milliseconds between two questions of a stream to the program's own `authenticate`, which may be slow. */
const askCallerMs = 15_000

/** Creates the service without a server; any server can pass requests to it. */
export const makeService = Effect.fnUntraced(function* (
  options: ServiceOptions,
): Effect.fn.Return<App, HttpSettingInvalid | StoreUnavailable, HttpNeeds | Scope.Scope> {
  const { prefix, publicUrl, rateLimits, shutdown } = options
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
  const context = {
    engine,
    offers,
    keyring: yield* signingKeyring(options.signingKeys),
    publicUrl,
    requireLiveWorker: options.requireLiveWorker,
    linkBlob: options.redirectFiles ? yield* findLink : undefined,
    admit: makeAdmit(authenticate, rateLimits, yield* makeLimiters(ids.next("req"))),
    confirm: makeConfirm(authenticate),
    confirmEveryMs: options.askCaller === undefined ? confirmKeyMs : askCallerMs,
    waits: makeJobWaits(engine, readiness),
    readiness,
  }
  const { openAi } = options
  const routes = [...makeRoutes(context), ...(openAi === undefined ? [] : openAiRoutes({ ...context, openAi }))]
  const pages = options.pages
    ? yield* pageRoutes({
        offers,
        publicUrl,
        take: limitAddresses(rateLimits.pages, trustedProxies),
        trustedProxies,
        playground: options.playground,
        readBoard: engine.readBoard,
        authenticate,
      })
    : []
  const router = yield* Effect.try({
    try: () => new Router([...routes, ...pages]),
    catch: (error) => new HttpSettingInvalid({ setting: "routes", problem: String(error) }),
  })
  yield* readiness.add("store", Effect.as(engine.readBoard, true), storeCheckMs)
  return makeApp({
    router,
    ids,
    observer: yield* HttpObserver,
    shutdown,
    prefix,
    trustedProxies,
  })
})

/** Returns the progress of the shutdown of this process, for apps within the scope. */
export const watchShutdown: Effect.Effect<Shutdown, never, Readiness | Scope.Scope> = Effect.gen(function* () {
  const readiness = yield* Readiness
  const shutdown: Shutdown = { isStopping: false, closesConnections: readiness.isStopping() }
  yield* Effect.acquireRelease(
    Effect.sync(() => readiness.onStopping(() => void (shutdown.closesConnections = true))),
    (leave) => Effect.sync(leave),
  )
  return shutdown
})

/** Buckets that all processes of the installation share, if the store has any; otherwise those of this process. */
const makeLimiters = Effect.fnUntraced(function* (process: string): Effect.fn.Return<KeyLimiters, never, Scope.Scope> {
  const store = Option.getOrUndefined(yield* Effect.serviceOption(RateLimitStore))
  if (store === undefined) {
    const local = localKeyLimiter
    return { create: local(), upload: local(), read: local(), delete: local() }
  }
  const shared = (name: keyof KeyLimits) => SharedKeyLimiter.make(name, store, process)
  return {
    create: yield* shared("create"),
    upload: yield* shared("upload"),
    read: limitReads(yield* shared("read")),
    delete: yield* shared("delete"),
  }
})

const findLink = Effect.flatMap(Effect.serviceOption(BlobStore), (store) => {
  const link = Option.getOrUndefined(store)?.link
  return link === undefined
    ? Effect.fail(
        new HttpSettingInvalid({
          setting: "redirectFiles",
          problem: "requires a blob store that can create presigned URLs",
        }),
      )
    : Effect.succeed(link)
})

const parseProxies = (configured: ReadonlyArray<string>) => {
  const parsed = parseTrustedProxies(configured.join(","))
  return parsed.ok
    ? Effect.succeed(parsed.proxies)
    : Effect.fail(new HttpSettingInvalid({ setting: "trustedProxies", problem: parsed.problem }))
}
