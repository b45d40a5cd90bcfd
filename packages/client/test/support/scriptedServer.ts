import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"

/** Behavior for one request: respond, close the connection, or stay silent. */
export type Step =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: unknown
      readonly text?: string
    }
  | "cut"
  | "silent"

export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string
  readonly received: ReadonlyArray<Received>
}

/** A server that answers by a script, one step a request; the last step again and again. */
export const scriptedServer = async (script: readonly [Step, ...ReadonlyArray<Step>]): Promise<ScriptedServer> => {
  const received: Array<Received> = []
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request)
    const step = script[Math.min(received.length, script.length - 1)] ?? "cut"
    const { headers, method = "", url: path = "" } = request
    received.push({ method, path, headers, body: body.toString() })
    if (step === "silent") return
    if (step === "cut") request.socket.destroy()
    else response.writeHead(step.status, step.headers).end(step.text ?? JSON.stringify(step.body))
  }
  const server = createServer((request, response) => void answer(request, response))
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  const stop = async () => {
    server.closeAllConnections()
    server.close()
    await once(server, "close")
  }
  return { url: `http://127.0.0.1:${port}`, received, [Symbol.asyncDispose]: stop }
}

/** The body of a refusal, as the service sends it. */
export const refusal = (code: string, details: unknown = null) => ({
  error: { type: "api_error", code, message: "not now", param: null, details, request_id: "req_1" },
})
