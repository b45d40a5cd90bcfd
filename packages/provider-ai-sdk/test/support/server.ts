import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly json: () => unknown
  readonly form: () => Promise<FormData>
  /** Settles when this exchange has ended or the client has aborted it. */
  readonly closed: Promise<void>
}

export interface Server extends AsyncDisposable {
  readonly origin: string
  readonly received: ReadonlyArray<Received>
  readonly arrived: (count: number) => Promise<void>
}

/** Starts a server that responds as the test says and records its requests. */
export const serve = async (respond: (response: ServerResponse, received: Received) => void): Promise<Server> => {
  const received: Array<Received> = []
  const waiting = new Set<() => void>()
  const server = createServer((request, response) => {
    const closed = once(response, "close").then(() => undefined)
    const chunks: Array<Buffer> = []
    request.on("error", () => undefined)
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const body = Buffer.concat(chunks)
      const one: Received = {
        path: request.url ?? "",
        headers: request.headers,
        body,
        json: () => JSON.parse(body.toString()),
        form: () =>
          new Response(body, { headers: { "content-type": request.headers["content-type"] ?? "" } }).formData(),
        closed,
      }
      received.push(one)
      for (const wake of waiting) wake()
      respond(response, one)
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    received,
    arrived: (count) =>
      new Promise((resolve) => {
        const look = () => {
          if (received.length < count) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, "close")
    },
  }
}

export const json =
  (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}) =>
  (response: ServerResponse): void =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value))
