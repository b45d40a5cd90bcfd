import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { AskCaller } from "../server/callerAuthentication.ts"
import type { HttpSettingInvalid } from "../server/HttpSettingInvalid.ts"
import { webListener } from "../server/webListener.ts"
import { WebSource } from "../server/WebSource.ts"
import type { FetchHandler, FetchMountOptions, MountedEngine } from "./MountOptions.ts"
import { type MountNeeds, mountService } from "./mountService.ts"
import { attached, inEngine } from "./inEngine.ts"

/** Creates the HTTP service as a web-standard handler, until the scope closes. Requests outside the prefix get 404. */
export const mountFetch = Effect.fnUntraced(function* (
  options: FetchMountOptions,
): Effect.fn.Return<FetchHandler, HttpSettingInvalid | StoreUnavailable, MountNeeds | Scope.Scope> {
  const { app, requests } = yield* mountService(options, askCaller(options), "fetchHandler()", { remoteAddress: true })
  const listener = yield* webListener(app, requests)
  return (request) => listener(request, options.remoteAddress?.(request))
})

const askCaller = ({ authenticate }: FetchMountOptions): AskCaller | undefined =>
  authenticate &&
  (({ source }) => {
    if (source instanceof WebSource) return authenticate(source.request)
    throw new TypeError("expected a web-standard Request")
  })

/**
 * Returns the HTTP service of an engine as a web-standard handler: for Hono (`c.req.raw`), Next.js route handlers, Bun and
 * Deno. Requests outside the prefix get 404.
 *
 * After the engine has stopped, requests get 503; close the server first. Rejects with `HttpSettingInvalid` (`setting`,
 * `problem`) for invalid options.
 */
export const fetchHandler = (engine: MountedEngine, options: FetchMountOptions): Promise<FetchHandler> =>
  inEngine(engine, attached(mountFetch(options)))
