import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { adminDocument } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import type { Authorize, Incoming } from "./authorize.ts"
import { hasRole } from "./Caller.ts"
import { apiPrefix, handleApi, responding } from "./handle.ts"
import { type AdminServices, type HandlerOptions, makeHandlers } from "./handlers.ts"
import { servePage } from "./page.ts"
import { json, requestIdOf } from "./respond.ts"
import { makeStream } from "./stream.ts"

export interface DashboardParts extends HandlerOptions {
  readonly authorize: Authorize
}

/** Handles a request, whose path is relative to the place of the page. */
export type Handle = (incoming: Incoming, path: string) => Effect.Effect<Response>

const documentPath = `${apiPrefix}/openapi.json`
const streamPath = `${apiPrefix}/overview/stream`

const describe = Effect.sync(() => json(adminDocument()))

/** Builds the operator's page and its API on the services of an engine, until the scope closes. */
export const makeDashboard = (parts: DashboardParts): Effect.Effect<Handle, never, AdminServices | Scope.Scope> =>
  Effect.gen(function* () {
    const { authorize } = parts
    const handlers = makeHandlers(parts)
    const overview = handlers.overview({ id: "", query: {}, payload: {} }, { name: "", roles: [], origin: "" })
    const stream = yield* makeStream(overview)
    const context = yield* Effect.context<AdminServices>()

    const watch = Effect.fnUntraced(function* (incoming: Incoming) {
      const operator = yield* authorize(incoming)
      if (!hasRole(operator, "view")) return yield* Effect.fail(refuse("insufficient_role"))
      return stream.open() ?? (yield* Effect.fail(refuse("service_unavailable")))
    })
    const answer = (incoming: Incoming, path: string) => {
      const { method } = incoming.request
      const isRead = method === "GET" || method === "HEAD"
      if (path === streamPath) return isRead ? watch(incoming) : Effect.fail(refuse("method_not_allowed"))
      if (path === documentPath) return isRead ? describe : Effect.fail(refuse("method_not_allowed"))
      if (path.startsWith(`${apiPrefix}/`))
        return handleApi(incoming, path.slice(apiPrefix.length), authorize, handlers)
      if (!isRead) return Effect.fail(refuse("not_found"))
      return Effect.flatMap(
        Effect.promise(() => servePage(incoming.request, path.replace(/^\//, ""))),
        (page) => (page === undefined ? Effect.fail(refuse("not_found")) : Effect.succeed(page)),
      )
    }
    return (incoming, path) =>
      Effect.provideContext(
        responding(answer(incoming, path), requestIdOf(incoming.request.headers.get("x-request-id"))),
        Context.merge(Context.empty(), context),
      )
  })
