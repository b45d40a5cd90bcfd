import type { NodeRequest, NodeResponse } from "./NodeExchange.ts"

// Requests whose sender waits for `100 Continue` before it sends the body. Answering without it spares the sender the
// whole body, so it is said only when the body is first read.
const waiting = new WeakSet<NodeRequest>()

/** Notes a request that came with `Expect: 100-continue`. */
export const expectContinue = (request: NodeRequest): void => void waiting.add(request)

/** Whether the sender still waits: its body will not come, and Node closes the connection after the answer. */
export const awaitsContinue = (request: NodeRequest): boolean => waiting.has(request)

/** Asks for the body, once. */
export const sendContinue = (request: NodeRequest, response: NodeResponse): void => {
  if (waiting.delete(request) && !response.headersSent && !response.destroyed) response.writeContinue()
}
