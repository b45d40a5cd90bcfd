import { once } from "node:events"
import { type AddressInfo, createServer, type Socket } from "node:net"

/** One request as received. */
export interface RawRequest {
  /** Header names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly line: string
  readonly body: Buffer
}

export interface RawServer extends AsyncDisposable {
  readonly origin: string
  readonly port: number
  readonly requests: ReadonlyArray<RawRequest>
  /** Settles when the client has closed the connection of the request with this number, counted from 0. */
  readonly closed: (request: number) => Promise<void>
  /** Settles when this many complete requests have arrived. */
  readonly arrived: (count: number) => Promise<void>
}

/** Starts a server that writes the test's bytes verbatim, so that its responses can be wrong in any way. */
export const rawServer = async (
  respond: (socket: Socket, request: RawRequest, number: number) => void,
  host = "127.0.0.1",
): Promise<RawServer> => {
  const requests: Array<RawRequest> = []
  const closings: Array<Promise<void>> = []
  const sockets = new Set<Socket>()
  const waiting = new Set<() => void>()
  const server = createServer((socket) => {
    sockets.add(socket)
    const closed = Promise.withResolvers<void>()
    socket.on("error", () => undefined)
    socket.on("close", () => {
      sockets.delete(socket)
      closed.resolve()
    })
    let buffered = Buffer.alloc(0)
    socket.on("data", (chunk) => {
      buffered = Buffer.concat([buffered, chunk])
      for (let parsed = parse(buffered); parsed !== undefined; parsed = parse(buffered)) {
        buffered = buffered.subarray(parsed.length)
        closings.push(closed.promise)
        requests.push(parsed.request)
        for (const wake of waiting) wake()
        respond(socket, parsed.request, requests.length - 1)
      }
    })
  })
  server.listen(0, host)
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  const arrived = (count: number): Promise<void> =>
    new Promise((resolve) => {
      const look = () => {
        if (requests.length < count) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return {
    port,
    origin: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    requests,
    arrived,
    closed: async (request) => {
      await arrived(request + 1)
      await closings[request]
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, "close")
    },
  }
}

/** Parses the first complete request received so far; bodies with a length or in chunks. */
const parse = (bytes: Buffer): { readonly request: RawRequest; readonly length: number } | undefined => {
  const end = bytes.indexOf("\r\n\r\n")
  if (end < 0) return undefined
  const [line = "", ...fields] = bytes.subarray(0, end).toString("latin1").split("\r\n")
  const headers = Object.fromEntries(
    fields.map((field): [string, string] => {
      const colon = field.indexOf(":")
      return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()]
    }),
  )
  const start = end + 4
  if (headers["transfer-encoding"] === "chunked") {
    const last = bytes.indexOf("0\r\n\r\n", start)
    return last < 0 ? undefined : { request: { line, headers, body: bytes.subarray(start, last) }, length: last + 5 }
  }
  const length = start + Number(headers["content-length"] ?? 0)
  return bytes.length < length ? undefined : { request: { line, headers, body: bytes.subarray(start, length) }, length }
}

/** Returns a response with a correct Content-Length. */
export const answer = (
  status: number,
  body: string | Uint8Array = "",
  headers: Readonly<Record<string, string>> = {},
): Buffer => {
  const bytes = Buffer.from(body as Uint8Array)
  const fields = Object.entries({ "content-length": String(bytes.length), ...headers })
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 ${status} Status\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`),
    bytes,
  ])
}
