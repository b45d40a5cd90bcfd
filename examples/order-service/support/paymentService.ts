import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"
import { setTimeout } from "node:timers/promises"

/** A payment service in this process. Its charges outlive the processes that are killed. */
export const openPaymentService = async () => {
  /** Charges by idempotency key. */
  const charges = new Map<string, string>()
  let calls = 0
  let failing = 0
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    calls += 1
    const key = String(request.headers["idempotency-key"])
    const { card } = (await json(request)) as { readonly card: string }
    if (card === "declined") return response.writeHead(402).end()
    if (card === "flaky" && failing++ < 1) return response.writeHead(503).end()
    // Charged first, and answered later: a process that is killed meanwhile does not learn of its charge.
    if (!charges.has(key)) charges.set(key, `ch_${charges.size + 1}`)
    await setTimeout(100)
    return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ id: charges.get(key) }))
  }
  const server = createServer((request, response) => {
    // A process that was killed reads no answer.
    answer(request, response).catch(() => response.destroy())
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    charges,
    calls: () => calls,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
