// The same kind over HTTP, mounted in your own server: `node --conditions=@kiln/source examples/custom-kind/http.ts`.
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { createEngine } from "@kiln/core"
import { jobRoute, nodeHandler } from "@kiln/http/mount"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { summaryKind } from "./kind.ts"
import { makeTools } from "./tools.ts"

const kind = summaryKind(makeTools(() => {}))
await using engine = await createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: [kind], log: false })

const server = createServer().listen(0, "127.0.0.1")
await once(server, "listening")
const publicUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`
const handler = await nodeHandler(engine, {
  publicUrl,
  routes: [jobRoute(kind, { path: "/v1/summaries" })],
  // Your own users, instead of kiln's API keys.
  authenticate: ({ headers }) =>
    headers.authorization === "Bearer alice"
      ? { projectId: "alice", mode: "sandbox", scopes: ["summary.create"] }
      : undefined,
})
server.on("request", handler)

// A client: fields are in snake_case on the wire, and files are URLs.
const headers = { authorization: "Bearer alice", "content-type": "application/json" }
const body = JSON.stringify({
  text: "Kilns are ovens for clay. The hot air rises.",
  sentences: 2,
  document_id: "doc-7",
})
const request = { method: "POST", headers: { ...headers, "idempotency-key": "doc-7" }, body }
const created = await fetch(`${publicUrl}/v1/summaries`, request)
console.log(created.status, created.headers.get("location")?.replace(/job_.*/, "job_…"))
const { id } = await created.json()
await engine.wait(id)
const { output, status } = await (await fetch(`${publicUrl}/v1/summaries/${id}`, { headers })).json()
console.log(status, output.word_count, output.summary)
console.log((await (await fetch(output.page_url)).text()).trim())
console.log((await fetch(`${publicUrl}/v1/summaries`, { ...request, headers: {} })).status)

server.close()
server.closeAllConnections()
