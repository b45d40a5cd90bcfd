import type { NodeSource } from "./NodeSource.ts"
import type { Reply } from "./Reply.ts"

/** Maximum number of bytes per write, because a system call that copies megabytes blocks other requests for many milliseconds. */
export const sliceBytes = 65_536

/**
 * Writes a short reply in one step. False, with nothing written, if the reply needs more than that: a stream, a large body, an
 * HTTP/2 response, or a request whose body is still arriving.
 */
export const writeWhole = (
  { isReceived, message, response }: NodeSource,
  { body, headers, status }: Reply,
): boolean => {
  if ("stream" in response || !isReceived || response.destroyed || response.writableEnded) return false
  if (body === undefined) response.writeHead(status, headers).end()
  else if (typeof body === "string" || (body instanceof Uint8Array && body.length <= sliceBytes)) {
    response.writeHead(status, headers)
    if (message.method === "HEAD") response.end()
    else response.end(body)
  } else return false
  return true
}
