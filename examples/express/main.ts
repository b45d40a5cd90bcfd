// kiln in an Express app, under /api/kiln: `node --conditions=@kiln/source examples/express/main.ts`.
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { builtInKinds, createEngine } from "@kiln/core"
import { createApiKey, nodeHandler } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import express from "express"

const port = Number(process.env["PORT"] ?? 3000)
// Where clients reach this server. Behind a proxy, this is not the address it listens on.
const publicUrl = process.env["PUBLIC_URL"] ?? `http://127.0.0.1:${port}`

const engine = await createEngine({
  // Lost when the process ends. `sqliteStore`, `postgresStore`, `fileBlobs` and `unstorageBlobs` persist.
  store: memoryStore(),
  blobs: memoryBlobs(),
  kinds: builtInKinds(),
  providers: { sandbox: sandboxProviders() },
})

const app = express()
// Before express.json(), because kiln reads request bodies itself.
app.use(await nodeHandler(engine, { publicUrl: `${publicUrl}/api/kiln` }))
app.use(express.json())

// Your own route, on the same engine.
// oxlint-disable-next-line oxc/no-async-endpoint-handlers -- Express 5 handles rejections
app.post("/greetings", async (request, response) => {
  const job = await engine.submitAndWait(
    "speech_synthesis",
    { input: `Hello ${request.body.name}` },
    { project: "greeter" },
  )
  if (job.status !== "done" || job.output === null) return void response.sendStatus(502)
  response.type(job.output.audio.mediaType).send(await engine.readFile(job.output.audio))
})

const server = app.listen(port, "127.0.0.1")
await once(server, "listening")
// With a persistent store, create a key only once.
const { key } = await createApiKey(engine, { project: "visitors", scopes: ["audio.create"] })
console.log(`listens at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
console.log(`an API key: ${key}`)

const [signal] = await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")])
console.log(`stops at ${signal}`)
// The server first: requests in progress may finish for ten seconds. Then the engine, whose running jobs may finish.
setTimeout(() => server.closeAllConnections(), 10_000).unref()
await new Promise((resolve) => server.close(resolve))
await engine.stop()
console.log("stopped")
