// An order service: `node --conditions=@kiln/source examples/order-service/main.ts <directory> <URL of payments> [port]`.
// `PUT /orders/<id>` with `{"amount":1200,"card":"…"}` places an order, `GET /orders/<id>` shows it.
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { json } from "node:stream/consumers"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine } from "@kiln/core"
import Database from "better-sqlite3"
import { fulfillKind, orderRequest, OrderTable } from "./Orders.ts"
import { Payments } from "./Payments.ts"

const [directory, paymentsUrl, port = "0"] = process.argv.slice(2)
if (directory === undefined || paymentsUrl === undefined) throw new Error("pass a directory and the URL of payments")

const path = join(directory, "shop.db")
const db = new Database(path)
// One file for both: the transaction of an order contains its job.
db.pragma("journal_mode = WAL")
db.pragma("synchronous = FULL")
const orders = new OrderTable(db)
const engine = await createEngine({
  store: sqliteStore({ path }),
  blobs: fileBlobs({ directory: join(directory, "blobs") }),
  kinds: [fulfillKind(orders, new Payments(paymentsUrl))],
  // Short, so that the test sees how another process continues. The default is 30 s.
  settings: { leaseDurationMs: 2_000 },
})

const answer = async (request: IncomingMessage): Promise<readonly [status: number, body: object]> => {
  const [, id] = /^\/orders\/([\w-]{1,64})$/.exec(request.url ?? "") ?? []
  if (id === undefined) return [404, { error: "not found" }]
  if (request.method === "GET") {
    const order = orders.find(id)
    return order === undefined ? [404, { error: "not found" }] : [200, order]
  }
  if (request.method !== "PUT") return [405, { error: "GET or PUT" }]
  const parsed = orderRequest.safeParse(await json(request))
  if (!parsed.success) return [400, { error: messagesOf(parsed.error) }]
  try {
    const order = orders.place({ id, ...parsed.data }, (transaction) =>
      engine.submitSync("fulfill_order", { orderId: id }, { transaction }),
    )
    return [202, order]
  } catch (error) {
    if (error instanceof RangeError) return [409, { error: error.message }]
    throw error
  }
}
const messagesOf = ({ issues }: { readonly issues: ReadonlyArray<{ readonly message: string }> }): string =>
  issues.map(({ message }) => message).join("; ")

const send = (response: ServerResponse, status: number, body: object): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}
const server = createServer((request, response) => {
  answer(request).then(
    ([status, body]) => send(response, status, body),
    (error: unknown) => {
      console.error(error)
      send(response, 500, { error: "internal error" })
    },
  )
})
server.listen(Number(port), "127.0.0.1")
await once(server, "listening")
console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`)

process.once("SIGTERM", () => {
  server.close()
  server.closeIdleConnections()
  void engine.stop().finally(() => db.close())
})
