// kiln in a Fastify app, under /api/kiln: `node --conditions=@kiln/source examples/fastify/main.ts`.
import { once } from "node:events"
import { builtInKinds, createEngine } from "@kiln/core"
import { createApiKey } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import fastify from "fastify"
import { kilnPlugin } from "./kilnPlugin.ts"

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

const app = fastify()
app.post("/echo", ({ body }) => ({ received: body }))
await app.register(kilnPlugin, { prefix: "/api/kiln", engine, publicUrl: `${publicUrl}/api/kiln` })
// `onClose` hooks run after the server's last response.
app.addHook("onClose", () => engine.stop())

console.log(`listens at ${await app.listen({ port, host: "127.0.0.1" })}`)
// With a persistent store, create a key only once.
const { key } = await createApiKey(engine, { project: "visitors", scopes: ["audio.create", "images.create"] })
console.log(`an API key: ${key}`)

const [signal] = await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")])
console.log(`stops at ${signal}`)
// Requests in progress may finish for ten seconds.
setTimeout(() => app.server.closeAllConnections(), 10_000).unref()
await app.close()
console.log("stopped")
