import type { IncomingMessage, ServerResponse } from "node:http"
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2"

/** A request of Node's own server, in HTTP/1 or through the compatibility API of HTTP/2. */
export type NodeRequest = IncomingMessage | Http2ServerRequest
export type NodeResponse = ServerResponse | Http2ServerResponse
export type NodeListener = (request: NodeRequest, response: NodeResponse) => void

/**
 * A handler for `node:http`, for `node:http2` through its compatibility API, and for Express and Connect. Passes requests that
 * are not for kiln to `next`, if given.
 */
export type NodeHandler = (request: NodeRequest, response: NodeResponse, next?: (error?: unknown) => void) => void
