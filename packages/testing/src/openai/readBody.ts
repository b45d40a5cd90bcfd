import type { IncomingMessage } from "node:http"
import { refuse } from "./failures.ts"

/** Factor by which a body may exceed its limit and is still read and discarded, because a client that is sending does not read the rejection. */
const DISCARD_FACTOR = 4

/** Reads the whole body. Throws `RequestRefused` beyond the limit, and the stream's error if the client disconnects. */
export const readBody = async (request: IncomingMessage, maxBytes: number): Promise<Buffer> => {
  const pieces: Array<Buffer> = []
  let bytes = 0
  // Leaving the loop must not destroy the request, because the response uses the same socket.
  for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes <= maxBytes) pieces.push(piece)
    if (bytes > maxBytes * DISCARD_FACTOR) break
  }
  if (bytes <= maxBytes) return Buffer.concat(pieces)
  throw refuse(`Maximum content size limit (${maxBytes}) exceeded (${bytes} bytes read)`, {
    status: 413,
    headers: { connection: "close" },
  })
}
