import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { Engine } from "@kiln/core/effect"
import {
  type OptionNames,
  type RateLimitPolicy,
  requireFlag,
  requireNumber,
  requireOptions,
  type StoreUnavailable,
} from "@kiln/core/domain"
import type { BlobStore, IdGenerator, KeyDirectory, SecretStore, Switchboard } from "@kiln/core/ports"
import { layerProviderDetails, layerWriteReadiness, Readiness } from "../Health.ts"
import { defaultRateLimits, type RateLimitName } from "../server/rateLimits.ts"
import type { App } from "../server/app.ts"
import type { AskCaller } from "../server/callerAuthentication.ts"
import { HttpSettingInvalid } from "../server/HttpSettingInvalid.ts"
import { makeService, watchShutdown } from "../server/makeService.ts"
import { parsePublicUrl } from "../server/publicUrl.ts"
import { defaultOpenAiSettings } from "../openai/OpenAiContext.ts"
import type { MountOptions } from "./MountOptions.ts"

/** Services required by a mounted service. */
export type MountNeeds = Engine | IdGenerator | KeyDirectory | SecretStore | Switchboard | BlobStore

/** A service to mount into a server, and the scope of its requests. */
export interface Mounted {
  readonly app: App
  readonly requests: Scope.Scope
}

const PREFIX = /^(?:\/[A-Za-z0-9._~-]+)*$/

/** Resolves the public URL and the path prefix of a service. */
const placeOf = Effect.fnUntraced(function* ({
  prefix,
  publicUrl,
}: Pick<MountOptions<never>, "prefix" | "publicUrl">): Effect.fn.Return<
  { readonly publicUrl: string; readonly prefix: string },
  HttpSettingInvalid
> {
  const url = yield* parsePublicUrl(publicUrl)
  if (url === undefined) return yield* new HttpSettingInvalid({ setting: "publicUrl", problem: "is required" })
  const path = new URL(url).pathname.replace(/\/$/, "")
  const wanted = (prefix ?? path).replace(/\/+$/, "")
  if (!PREFIX.test(wanted))
    return yield* new HttpSettingInvalid({
      setting: "prefix",
      problem: "must consist of segments of letters, digits and ._~- such as /api/kiln",
    })
  return { prefix: wanted, publicUrl: path.endsWith(wanted) ? url : url + wanted }
})

const mountOptions: OptionNames<MountOptions<never>> = {
  publicUrl: true,
  prefix: true,
  rateLimits: true,
  trustedProxies: true,
  signingKeys: true,
  pages: true,
  playground: true,
  routes: true,
  authenticate: true,
  requireLiveWorker: true,
  openai: true,
}
const limitNames: { readonly [Name in RateLimitName]: true } = {
  create: true,
  upload: true,
  read: true,
  delete: true,
  authentication: true,
  pages: true,
}
const policyNames: OptionNames<RateLimitPolicy> = { perMinute: true, burst: true }

const givenLimits = (rateLimits: MountOptions<never>["rateLimits"] = {}) =>
  (Object.keys(limitNames) as ReadonlyArray<RateLimitName>).flatMap((name) => {
    const policy = rateLimits[name]
    return policy === undefined ? [] : [[name, policy] as const]
  })

/** Throws `TypeError` for unknown options and for options of the wrong type. */
const checkOptions = (place: string, options: object, more: Readonly<Record<string, true>>): void => {
  requireOptions(place, options, { ...mountOptions, ...more })
  const {
    authenticate,
    openai,
    pages,
    playground,
    rateLimits = {},
    requireLiveWorker,
    routes = [],
  } = options as Partial<MountOptions<never>>
  requireFlag("openai", openai)
  requireFlag("pages", pages)
  requireFlag("playground", playground)
  if (playground === true && pages !== true) throw new TypeError("playground requires pages: true")
  if (playground === true && authenticate !== undefined)
    throw new TypeError("playground cannot be combined with authenticate, which replaces API keys")
  requireFlag("requireLiveWorker", requireLiveWorker)
  if (!Array.isArray(routes)) throw new TypeError("routes must be an array of values returned by jobRoute()")
  if (authenticate !== undefined && typeof authenticate !== "function")
    throw new TypeError("authenticate must be a function")
  requireOptions("rateLimits", rateLimits, limitNames)
  for (const [name, policy] of givenLimits(rateLimits)) {
    requireOptions(`rateLimits.${name}`, policy, policyNames)
    for (const part of ["perMinute", "burst"] as const)
      requireNumber(`rateLimits.${name}.${part}`, policy[part], { least: 0, most: 1_000_000, whole: true })
  }
}

/** Creates the service until the scope closes. New requests then get 503, and running ones are interrupted. */
export const mountService = Effect.fnUntraced(function* <Source>(
  options: MountOptions<Source>,
  askCaller: AskCaller | undefined,
  place: "fetchHandler()" | "nodeHandler()",
  more: Readonly<Record<string, true>> = {},
): Effect.fn.Return<Mounted, HttpSettingInvalid | StoreUnavailable, MountNeeds | Scope.Scope> {
  checkOptions(place, options, more)
  const { prefix, publicUrl } = yield* placeOf(options)
  const readiness = yield* Layer.build(
    Layer.merge(layerWriteReadiness, layerProviderDetails).pipe(Layer.provideMerge(Readiness.layer)),
  )
  const shutdown = yield* Effect.provide(watchShutdown, readiness)
  const app = yield* makeService({
    publicUrl: () => publicUrl,
    prefix,
    shutdown,
    trustedProxies: options.trustedProxies ?? [],
    rateLimits: { ...defaultRateLimits, ...Object.fromEntries(givenLimits(options.rateLimits)) },
    signingKeys: options.signingKeys,
    pages: options.pages ?? false,
    playground: options.playground ?? false,
    routes: options.routes ?? [],
    requireLiveWorker: options.requireLiveWorker ?? true,
    redirectFiles: false,
    openAi: options.openai === true ? defaultOpenAiSettings : undefined,
    askCaller,
  }).pipe(Effect.provide(readiness))
  const { markStopping } = Context.get(readiness, Readiness)
  const requests = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
  yield* Effect.addFinalizer(() =>
    Effect.andThen(
      markStopping,
      Effect.sync(() => void (shutdown.isStopping = true)),
    ),
  )
  return { app, requests }
})
