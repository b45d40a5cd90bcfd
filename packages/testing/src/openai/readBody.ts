import type { IncomingMessage } from "node:http"
import { refuse } from "./failures.ts"

/** How much more than allowed is still read and thrown away, as a client in the middle of sending does not hear a no. */
const PATIENCE = 4

/** The whole body. Throws `RequestRefused` past the limit, and whatever the stream throws when the client goes away. */
export const readBody = async (request: IncomingMessage, maxBytes: number): Promise<Buffer> => {
  const pieces: Array<Buffer> = []
  let bytes = 0
  // Leaving the loop must not destroy the request: the answer goes over the same socket.
  for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes <= maxBytes) pieces.push(piece)
    if (bytes > maxBytes * PATIENCE) break
  }
  if (bytes <= maxBytes) return Buffer.concat(pieces)
  throw refuse(`Maximum content size limit (${maxBytes}) exceeded (${bytes} bytes read)`, {
    status: 413,
    headers: { connection: "close" },
  })
}
