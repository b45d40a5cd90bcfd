import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import type { StoreUnavailable } from "@kiln/core/domain"
import { type Operation, type OperationName, operations } from "../api/index.ts"
import { ApiError, refuse } from "./ApiError.ts"
import type { Authorize, Incoming } from "./authorize.ts"
import { type Caller, hasRole } from "./Caller.ts"
import type { AdminServices, Handlers } from "./handlers.ts"
import { errorResponse, json } from "./respond.ts"

/**
 * Returns whether a request that changes something comes from this page or from a program, and not from another site's page: its body
 * is JSON, or it has none and brings a bearer token. Other sites can send neither without asking. A browser names no other origin.
 */
const isOwnChange = ({ headers, url }: Request): boolean => {
  const type = headers.get("content-type")
  const needsConsent =
    type === null ? /^bearer /i.test(headers.get("authorization") ?? "") : /^application\/json(?:;|$)/i.test(type)
  if (!needsConsent) return false
  const site = headers.get("sec-fetch-site")
  // A browser that says so knows the page's origin, also behind a proxy that replaces Host.
  if (site === "same-origin") return true
  if (site !== null && site !== "none") return false
  const origin = headers.get("origin")
  if (origin === null) return true
  if (!URL.canParse(origin)) return false
  return new URL(origin).host === (headers.get("host") ?? new URL(url).host)
}

export const apiPrefix = "/admin/v1"

const maxBodyBytes = 64 * 1_024

type Found = { readonly name: OperationName; readonly operation: Operation; readonly id: string }

const patternOf = (path: string): RegExp => new RegExp(`^${path.replace(":id", "([^/]+)")}$`)

const routes = (Object.keys(operations) as ReadonlyArray<OperationName>).map((name) => ({
  name,
  operation: operations[name] as Operation,
  pattern: patternOf(operations[name].path),
}))

const decodeSegment = (segment: string): string | undefined => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

/** Finds the operation of a path below `/admin/v1`. */
const find = (method: string, path: string): Effect.Effect<Found, ApiError> => {
  const matching = routes.flatMap((route) => {
    const [whole, segment] = route.pattern.exec(path) ?? []
    const id = segment === undefined ? "" : decodeSegment(segment)
    return whole === undefined || id === undefined ? [] : [{ ...route, id }]
  })
  const found = matching.find(({ operation }) => operation.method === (method === "HEAD" ? "GET" : method))
  if (found !== undefined) return Effect.succeed(found)
  return Effect.fail(refuse(matching.length === 0 ? "not_found" : "method_not_allowed"))
}

const format = SchemaIssue.makeFormatterStandardSchemaV1()

const decode = (schema: Schema.Top, value: unknown): Effect.Effect<unknown, ApiError> => {
  const result = Schema.decodeUnknownResult(schema as Schema.Codec<unknown, unknown>)(value, {
    onExcessProperty: "error",
  })
  if (Result.isSuccess(result)) return Effect.succeed(result.success)
  const [issue] = format(result.failure.issue).issues
  const path = issue?.path?.map(String).join(".") ?? ""
  return Effect.fail(refuse("invalid_request", `${path === "" ? "the request" : path} is invalid`))
}

const readBody = (request: Request): Effect.Effect<unknown, ApiError> =>
  Effect.flatMap(Effect.tryPromise({ try: () => request.text(), catch: () => refuse("invalid_request") }), (text) =>
    text.length > maxBodyBytes
      ? Effect.fail(refuse("invalid_request", "the body is too large"))
      : Effect.try({
          try: () => (text === "" ? {} : (JSON.parse(text) as unknown)),
          catch: () => refuse("invalid_request", "the body must be JSON"),
        }),
  )

/** Checks a request up to the operation: route, caller, role, origin, and input. */
const admit = Effect.fnUntraced(function* (incoming: Incoming, path: string, authorize: Authorize) {
  const { request } = incoming
  const { id, name, operation } = yield* find(request.method, path)
  const operator = yield* authorize(incoming)
  const caller: Caller = { ...operator, origin: `operator's page, ${incoming.remoteAddress ?? "unknown address"}` }
  if (!hasRole(caller, operation.role)) return yield* Effect.fail(refuse("insufficient_role"))
  const isChange = operation.method === "POST"
  if (isChange && !isOwnChange(request)) return yield* Effect.fail(refuse("cross_site"))
  const { searchParams } = new URL(request.url)
  const given = Object.fromEntries(searchParams)
  if (Object.keys(given).length < searchParams.size)
    return yield* Effect.fail(refuse("invalid_request", "give each query parameter once"))
  const query = yield* decode(operation.query, given)
  const payload = isChange ? yield* decode(operation.payload, yield* readBody(request)) : {}
  return { name, caller, input: { id, query, payload } }
})

type AnyHandler = (input: object, caller: Caller) => Effect.Effect<unknown, ApiError | StoreUnavailable, AdminServices>

/**
 * Adds the request id to a response. Responds to failures in the envelope of `/v1`. A defect is logged with the request id, and tells the
 * caller nothing else.
 */
export const responding = <R>(
  effect: Effect.Effect<Response, ApiError | StoreUnavailable, R>,
  requestId: string,
): Effect.Effect<Response, never, R> =>
  Effect.flatMap(Effect.exit(effect), (exit) => {
    if (Exit.isSuccess(exit)) {
      exit.value.headers.set("x-request-id", requestId)
      return Effect.succeed(exit.value)
    }
    const error = Cause.squash(exit.cause)
    if (error instanceof ApiError) {
      const headers =
        error.code === "missing_token" || error.code === "invalid_token"
          ? { "www-authenticate": 'Bearer realm="kiln operations"' }
          : undefined
      return Effect.succeed(errorResponse(error.code, error.message, headers, requestId))
    }
    if (Cause.hasInterruptsOnly(exit.cause)) return Effect.failCause(exit.cause as Cause.Cause<never>)
    if (typeof error === "object" && error !== null && Reflect.get(error, "_tag") === "StoreUnavailable")
      return Effect.succeed(errorResponse("service_unavailable", undefined, { "retry-after": "5" }, requestId))
    return Effect.as(
      Effect.logError(`the operator's API failed (${requestId})`, exit.cause),
      errorResponse("internal_error", undefined, undefined, requestId),
    )
  })

/** Handles a request to the API; `path` is the part below `/admin/v1`. */
export const handleApi = (
  incoming: Incoming,
  path: string,
  authorize: Authorize,
  handlers: Handlers,
): Effect.Effect<Response, ApiError | StoreUnavailable, AdminServices> =>
  Effect.gen(function* () {
    const { caller, input, name } = yield* admit(incoming, path, authorize)
    const handler: AnyHandler = handlers[name] as never
    return json(yield* handler(input, caller))
  })
