import { Effect, Layer, Scope } from "effect"
import type { Engine } from "@kiln/core/effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { BlobStore, IdGenerator, KeyDirectory, SecretStore, Switchboard } from "@kiln/core/ports"
import { layerProviderDetails, layerWriteReadiness, Readiness } from "../Health.ts"
import { defaultRateLimits } from "../wire/RateLimiter.ts"
import type { App } from "../server/app.ts"
import type { AskCaller } from "../server/callerAuthentication.ts"
import { HttpSettingInvalid } from "../server/HttpSettingInvalid.ts"
import { makeService } from "../server/makeService.ts"
import { parsePublicUrl } from "../server/publicUrl.ts"
import type { MountOptions } from "./MountOptions.ts"

/** What a mounted service works with. */
export type MountNeeds = Engine | IdGenerator | KeyDirectory | SecretStore | Switchboard | BlobStore

/** A service for the server it is mounted in, and the scope its requests live in. */
export interface Mounted {
  readonly app: App
  readonly requests: Scope.Scope
}

const PREFIX = /^(?:\/[A-Za-z0-9._~-]+)*$/

/** The place of a service: what its URLs begin with, and what its requests' paths do. */
const placeOf = Effect.fnUntraced(function* ({
  prefix,
  publicUrl,
}: Pick<MountOptions<never>, "prefix" | "publicUrl">): Effect.fn.Return<
  { readonly publicUrl: string; readonly prefix: string },
  HttpSettingInvalid
> {
  const url = yield* parsePublicUrl(publicUrl)
  if (url === undefined) return yield* new HttpSettingInvalid({ setting: "publicUrl", problem: "must be given" })
  const path = new URL(url).pathname.replace(/\/$/, "")
  const wanted = (prefix ?? path).replace(/\/+$/, "")
  if (!PREFIX.test(wanted))
    return yield* new HttpSettingInvalid({
      setting: "prefix",
      problem: "must be segments of letters, digits, and ._~- such as /api/kiln",
    })
  return { prefix: wanted, publicUrl: path.endsWith(wanted) ? url : url + wanted }
})

/** The service until the scope closes: then new requests get 503, and those that are running are interrupted. */
export const mountService = Effect.fnUntraced(function* <Source>(
  options: MountOptions<Source>,
  askCaller: AskCaller | undefined,
): Effect.fn.Return<Mounted, HttpSettingInvalid | StoreUnavailable, MountNeeds | Scope.Scope> {
  const { prefix, publicUrl } = yield* placeOf(options)
  const readiness = yield* Layer.build(
    Layer.merge(layerWriteReadiness, layerProviderDetails).pipe(Layer.provideMerge(Readiness.layer)),
  )
  let stopping = false
  const app = yield* makeService({
    publicUrl: () => publicUrl,
    prefix,
    isStopping: () => stopping,
    trustedProxies: options.trustedProxies ?? [],
    rateLimits: { ...defaultRateLimits, ...options.rateLimits },
    signingKeys: options.signingKeys,
    pages: options.pages ?? false,
    routes: options.routes ?? [],
    requireLiveWorker: options.requireLiveWorker ?? true,
    askCaller,
  }).pipe(Effect.provide(readiness))
  const requests = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
  yield* Effect.addFinalizer(() => Effect.sync(() => void (stopping = true)))
  return { app, requests }
})
