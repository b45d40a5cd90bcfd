import type { IncomingMessage, ServerResponse } from "node:http"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"

const maxBodyBytes = 64 * 1_024 + 1

const readBody = async (incoming: IncomingMessage): Promise<Uint8Array<ArrayBuffer> | undefined> => {
  if (incoming.method === "GET" || incoming.method === "HEAD") return undefined
  const pieces: Array<Uint8Array> = []
  let bytes = 0
  for await (const piece of incoming as AsyncIterable<Uint8Array>) {
    bytes += piece.length
    // What is left is read and discarded.
    if (bytes <= maxBodyBytes + piece.length) pieces.push(piece)
  }
  return new Uint8Array(Buffer.concat(pieces).subarray(0, maxBodyBytes))
}

/** Returns Node's request as a web-standard one. */
export const toRequest = async (incoming: IncomingMessage): Promise<Request> => {
  const headers = new Headers()
  for (const [name, value] of Object.entries(incoming.headers))
    if (value !== undefined && !name.startsWith(":"))
      for (const one of Array.isArray(value) ? value : [value]) headers.append(name, one)
  const body = await readBody(incoming)
  const host = headers.get("host") ?? "localhost"
  const base = URL.canParse(`http://${host}`) ? `http://${host}` : "http://localhost"
  // A path that begins with two slashes must not become a host.
  const url = `${base}${(incoming.url ?? "/").replace(/^\/*/, "/")}`
  return new Request(url, {
    method: incoming.method ?? "GET",
    headers,
    ...(body !== undefined && { body }),
  })
}

/** Sends a web-standard response as Node's. */
export const sendResponse = async (outgoing: ServerResponse, response: Response, isHead: boolean): Promise<void> => {
  if (outgoing.destroyed) return
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  if (response.body === null || isHead) {
    await response.body?.cancel()
    outgoing.end()
    return
  }
  outgoing.flushHeaders()
  // A client that leaves cancels the stream.
  await pipeline(Readable.fromWeb(response.body as never), outgoing).catch(() => undefined)
}
