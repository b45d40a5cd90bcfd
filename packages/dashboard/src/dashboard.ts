import type { IncomingMessage, ServerResponse } from "node:http"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { EngineClosed, type OptionNames, requireOptions } from "@kiln/core/domain"
import { embeddedContext } from "@kiln/core/effect"
import { type OperatorRole, operatorRoles } from "@kiln/core/ports"
import { refuse } from "./server/ApiError.ts"
import { type Authorize, byToken, type Incoming } from "./server/authorize.ts"
import type { Operator } from "./server/Caller.ts"
import { recordHistory } from "./server/history.ts"
import { type Handle, makeDashboard } from "./server/makeDashboard.ts"
import { sendResponse, toRequest } from "./server/node.ts"
import { errorResponse, requestIdOf } from "./server/respond.ts"

/** An engine returned by `createEngine`, with any kinds and any store. */
export interface DashboardEngine {
  /** Stops the page, then the worker, then the stores. */
  readonly stop: () => Promise<void>
}

/** A person or a program that may use the page, as the host program knows it. */
export interface DashboardOperator {
  /** For the audit log: `alice`. */
  readonly name: string
  /** `operate` and `content` include `view`. */
  readonly roles: ReadonlyArray<OperatorRole>
}

export interface DashboardOptions {
  readonly engine: DashboardEngine
  /**
   * Identifies the caller of a request, for programs with their own users; `undefined` results in 401. Replaces the tokens of `kiln
   * token create`, which are accepted by default. Called for every request to the API, with Node's request too where there is one.
   */
  readonly authorize?: (
    request: Request,
    incoming?: IncomingMessage,
  ) => PromiseLike<DashboardOperator | undefined> | DashboardOperator | undefined
  /** Path of the page on a server that does not strip it: `/ops`. Default: the root. Express strips it with `app.use("/ops", …)`. */
  readonly prefix?: string
}

/** The operator's page and its API, as handlers. */
export interface Dashboard {
  /** For Hono (`c.req.raw`), Next.js route handlers, Bun and Deno. */
  readonly fetch: (request: Request) => Promise<Response>
  /** For Express, Connect, Fastify (with `request.raw` and `reply.raw`) and Node's own server. Mount it before body parsers. */
  readonly node: (request: IncomingMessage, response: ServerResponse) => void
}

const optionNames: OptionNames<DashboardOptions> = { engine: true, authorize: true, prefix: true }

const PREFIX = /^(?:\/[A-Za-z0-9._~-]+)*$/

type Ask = NonNullable<DashboardOptions["authorize"]>

const isOperator = (value: unknown): value is Operator => {
  if (typeof value !== "object" || value === null) return false
  const { name, roles } = value as { readonly name?: unknown; readonly roles?: unknown }
  return (
    typeof name === "string" &&
    name !== "" &&
    Array.isArray(roles) &&
    roles.every((role) => operatorRoles.includes(role as OperatorRole))
  )
}

/** Asks the host program. An exception, and an answer of another form, is a defect and denies access. */
const byHost =
  (ask: Ask, messages: WeakMap<Request, IncomingMessage>): Authorize =>
  ({ request }) =>
    Effect.flatMap(
      Effect.promise(async () => ask(request, messages.get(request))),
      (operator) => {
        if (operator === undefined) return Effect.fail(refuse("missing_token", "Sign in to see this page."))
        return isOperator(operator)
          ? Effect.succeed({ name: operator.name, roles: operator.roles })
          : Effect.die(new TypeError("authorize must return { name, roles } or undefined"))
      },
    )

/** The path below the prefix; `undefined` for a path outside of it. */
const pathBelow = (prefix: string, pathname: string): string | undefined => {
  if (prefix === "") return pathname
  return pathname === prefix || pathname.startsWith(`${prefix}/`) ? pathname.slice(prefix.length) : undefined
}

/**
 * Returns the operator's page of an engine, and its API, to mount into a server of your own. Callers need a token of `kiln token
 * create`, or are identified by `authorize`.
 *
 * ```ts
 * const { node } = await dashboard({ engine, authorize: (request) => operatorOf(request) })
 * app.use("/ops", node)
 * ```
 */
export const dashboard = async (options: DashboardOptions): Promise<Dashboard> => {
  requireOptions("dashboard()", options, optionNames)
  const { authorize, engine, prefix = "" } = options
  if (authorize !== undefined && typeof authorize !== "function") throw new TypeError("authorize must be a function")
  if (typeof prefix !== "string" || !PREFIX.test(prefix))
    throw new TypeError("prefix must consist of segments of letters, digits and ._~- such as /ops")
  const messages = new WeakMap<Request, IncomingMessage>()
  const context = embeddedContext(engine)
  if (Context.get(context, Scope.Scope).state._tag === "Closed") throw new EngineClosed()
  const build = Effect.gen(function* () {
    yield* Effect.forkScoped(recordHistory)
    return yield* makeDashboard({
      authorize: authorize === undefined ? byToken({ allowLocal: false }) : byHost(authorize, messages),
      findings: undefined,
      version: undefined,
    })
  })
  const exit = await Effect.runPromiseExitWith(context)(build)
  if (Exit.isFailure(exit)) throw Cause.squash(exit.cause)
  return mounted(exit.value, prefix, messages)
}

const mounted = (handle: Handle, prefix: string, messages: WeakMap<Request, IncomingMessage>): Dashboard => {
  const respond = async (incoming: Incoming, shownPath: string): Promise<Response> => {
    const { pathname } = new URL(incoming.request.url)
    const path = pathBelow(prefix, pathname)
    const requestId = requestIdOf(incoming.request.headers.get("x-request-id"))
    if (path === undefined) return errorResponse("not_found", undefined, undefined, requestId)
    // The page's own links are relative to its directory.
    if ((path === "" || path === "/") && !shownPath.endsWith("/"))
      return new Response(null, { status: 308, headers: { location: `${shownPath}/`, "x-request-id": requestId } })
    return Effect.runPromise(handle(incoming, path))
  }
  return {
    fetch: (request) => respond({ request, remoteAddress: undefined }, new URL(request.url).pathname),
    node: (message, response) => {
      const { originalUrl = message.url ?? "/" } = message as { readonly originalUrl?: string }
      const run = async (): Promise<void> => {
        const request = await toRequest(message)
        messages.set(request, message)
        const [shownPath = "/"] = originalUrl.split("?", 1)
        const answer = await respond({ request, remoteAddress: message.socket.remoteAddress }, shownPath)
        await sendResponse(response, answer, message.method === "HEAD")
      }
      run().catch(() => response.destroy())
    },
  }
}
