import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from "node:http"
import { Agent as HttpsAgent, request as httpsRequest } from "node:https"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { connectionFailure, S3Failure } from "./S3Failure.ts"

/** Sends one HTTP request. Node's own client, because `fetch` copies each body and cannot tell a slow transfer from a stalled one. */
export type Exchange = (request: {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | undefined
}) => Effect.Effect<IncomingMessage, S3Failure>

const MOST_CONNECTIONS = 64

/** Opens a pool of connections, which closes with the scope. */
export const openExchange = (timeoutMs: number): Effect.Effect<Exchange, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const options = { keepAlive: true, maxSockets: MOST_CONNECTIONS }
        return { http: new HttpAgent(options), https: new HttpsAgent(options) }
      }),
      (agents) =>
        Effect.sync(() => {
          agents.http.destroy()
          agents.https.destroy()
        }),
    ),
    (agents) =>
      ({ body, headers, method, url }) =>
        Effect.callback<IncomingMessage, S3Failure>((resume) => {
          const isSecure = url.protocol === "https:"
          const send = isSecure ? httpsRequest : httpRequest
          const length = body === undefined ? (method === "PUT" || method === "POST" ? 0 : undefined) : body.length
          const request = send(url, {
            method,
            agent: isSecure ? agents.https : agents.http,
            headers: { ...headers, ...(length !== undefined && { "content-length": String(length) }) },
          })
          const fail = (cause: unknown) => resume(Effect.fail(connectionFailure(url.host, cause)))
          request.setTimeout(timeoutMs, () =>
            request.destroy(new Error(`the connection made no progress for ${timeoutMs} ms`)),
          )
          request.on("error", fail)
          request.on("response", (response) => {
            // An emitter without a listener would end the process when the connection breaks between two reads.
            response.on("error", () => {})
            resume(Effect.succeed(response))
          })
          request.end(body)
          return Effect.sync(() => request.destroy())
        }),
  )

const MOST_TEXT_BYTES = 16 * 1024 * 1024

/** Reads a response that is XML or empty. */
export const readText = (host: string, response: IncomingMessage): Effect.Effect<string, S3Failure> =>
  Effect.tryPromise({
    try: async (signal) => {
      signal.addEventListener("abort", () => response.destroy())
      const chunks: Array<Buffer> = []
      let bytes = 0
      for await (const chunk of response as AsyncIterable<Buffer>) {
        bytes += chunk.length
        if (bytes > MOST_TEXT_BYTES) throw new S3Failure("the response is too long", { retryable: false })
        chunks.push(chunk)
      }
      return Buffer.concat(chunks).toString("utf8")
    },
    catch: (cause) => connectionFailure(host, cause),
  })
