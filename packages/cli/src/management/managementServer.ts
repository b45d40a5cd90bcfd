import { createHash, timingSafeEqual } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { type Handle, requestIdOf, sendResponse, toRequest } from "@kiln/dashboard/effect"
import type { ReadinessReport } from "@kiln/http"
import type { CommandFailed } from "../CommandFailed.ts"
import type { ManagementPlace } from "../settings/management.ts"
import { portProblem } from "../startProblems.ts"

/** Sources of the management server's responses. */
export interface ManagementSources {
  /** All metrics in Prometheus's text format. */
  readonly metrics: Effect.Effect<string>
  readonly readiness: Effect.Effect<ReadinessReport>
  /** The operator's page and its API; answers all other paths. */
  readonly dashboard?: Handle | undefined
}

interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Ignores errors of broken connections, which would end the process without a listener. */
const ignore = (): void => {}

const json = (status: number, body: object, headers?: Readonly<Record<string, string>>): Answer => ({
  status,
  type: "application/json; charset=utf-8",
  body: JSON.stringify(body),
  ...(headers && { headers }),
})

const text = (status: number, body: string, headers?: Readonly<Record<string, string>>): Answer => ({
  status,
  type: "text/plain; charset=utf-8",
  body: `${body}\n`,
  ...(headers && { headers }),
})

const digest = (value: string): Buffer => createHash("sha256").update(value).digest()

/** Returns the check of a request's bearer token, in a time that tells nothing about it. */
const tokenCheck = (token: Redacted.Redacted | undefined) => {
  const expected = token && digest(Redacted.value(token))
  return ({ headers }: IncomingMessage): boolean => {
    if (expected === undefined) return true
    const [, given = ""] = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? "") ?? []
    return timingSafeEqual(digest(given), expected)
  }
}

const unauthorized = text(401, "send the token of KILN_MANAGEMENT_TOKEN as a bearer token", {
  "www-authenticate": 'Bearer realm="kiln management"',
})

const answerReadiness = (report: ReadinessReport): Answer =>
  report.status === "ready" ? json(200, report) : json(503, report, { "retry-after": "5" })

const answerMetrics = (body: string): Answer => ({
  status: 200,
  type: "text/plain; version=0.0.4; charset=utf-8",
  body,
})

/**
 * Answers probes to everyone, because they tell what the public port tells too, and metrics to those who have the token, if one is
 * set.
 */
const answerTo = (sources: ManagementSources, token: Redacted.Redacted | undefined) => {
  const isAllowed = tokenCheck(token)
  return (request: IncomingMessage): Effect.Effect<Answer> => {
    const path = pathOf(request)
    if (!ownPaths.has(path)) return Effect.succeed(text(404, "this port serves /metrics, /healthz and /readyz"))
    if (request.method !== "GET" && request.method !== "HEAD")
      return Effect.succeed(text(405, "use GET", { allow: "GET, HEAD" }))
    if (path === "/healthz") return Effect.succeed(json(200, { status: "ok" }))
    if (path === "/readyz") return Effect.map(sources.readiness, answerReadiness)
    return isAllowed(request) ? Effect.map(sources.metrics, answerMetrics) : Effect.succeed(unauthorized)
  }
}

const send = (response: ServerResponse, { body, headers = {}, status, type }: Answer): void => {
  if (response.destroyed) return
  response.writeHead(status, {
    ...headers,
    "content-type": type,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-request-id": requestIdOf(response.req.headers["x-request-id"]?.toString()),
  })
  response.end(response.req.method === "HEAD" ? undefined : body)
}

const ownPaths = new Set(["/metrics", "/healthz", "/readyz"])

const pathOf = ({ url = "/" }: IncomingMessage): string => url.replace(/\?.*$/s, "")

/** Sends a response of the operator's page, which may last as long as its viewer stays. */
const sendPage = (
  run: (effect: Effect.Effect<Response>) => Promise<Response>,
  handle: Handle,
  message: IncomingMessage,
  response: ServerResponse,
): void => {
  const respond = async (): Promise<void> => {
    const request = await toRequest(message)
    const answer = await run(handle({ request, remoteAddress: message.socket.remoteAddress }, pathOf(message)))
    await sendResponse(response, answer, message.method === "HEAD")
  }
  respond().catch(() => response.destroy())
}

type Respond = (request: IncomingMessage, response: ServerResponse) => void

const makeServer = (answer: (request: IncomingMessage) => Promise<Answer>, page: Respond | undefined): Server =>
  createServer({ headersTimeout: 10_000, requestTimeout: 10_000, maxHeaderSize: 8_192 }, (request, response) => {
    request.on("error", ignore)
    response.on("error", ignore)
    if (page !== undefined && !ownPaths.has(pathOf(request))) {
      page(request, response)
      return
    }
    request.resume()
    answer(request).then(
      (answered) => send(response, answered),
      () => send(response, text(500, "internal error")),
    )
  })

/** Serves `/metrics`, `/healthz` and `/readyz` until the scope closes. */
export const serveManagement = (
  { host, port, token }: Omit<ManagementPlace, "dashboard">,
  sources: ManagementSources,
): Effect.Effect<void, CommandFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const run = Effect.runPromiseWith(yield* Effect.context())
    const answer = answerTo(sources, token)
    const { dashboard } = sources
    const server = makeServer(
      (request) => run(answer(request)),
      dashboard && ((request, response) => sendPage(run, dashboard, request, response)),
    )
    yield* Effect.acquireRelease(
      Effect.callback<void, CommandFailed>((resume) => {
        // Stays attached as long as the server can fail; only the first failure to listen is reported.
        server.on("error", (cause) =>
          resume(Effect.fail(portProblem({ host, port, setting: "KILN_MANAGEMENT_PORT" }, cause))),
        )
        server.listen(port, host, () => resume(Effect.void))
      }),
      () =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        }),
    )
    const shown = host.includes(":") ? `[${host}]` : host
    yield* Effect.logInfo(`metrics are served at http://${shown}:${port}/metrics`)
    if (dashboard !== undefined) yield* Effect.logInfo(`the operator's page is at http://${shown}:${port}/`)
  })
