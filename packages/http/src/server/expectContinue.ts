import type { NodeRequest, NodeResponse } from "./NodeExchange.ts"

// Requests whose sender waits for `100 Continue` before it sends the body. A final response without it spares the sender
// the whole body, so `100 Continue` is sent only when the body is first read.
const waiting = new WeakSet<NodeRequest>()

/** Records a request with `Expect: 100-continue`. */
export const expectContinue = (request: NodeRequest): void => void waiting.add(request)

/** Returns whether the sender still waits. Its body will not arrive, and Node closes the connection after the response. */
export const awaitsContinue = (request: NodeRequest): boolean => waiting.has(request)

/** Sends `100 Continue`, once. */
export const sendContinue = (request: NodeRequest, response: NodeResponse): void => {
  if (waiting.delete(request) && !response.headersSent && !response.destroyed) response.writeContinue()
}
