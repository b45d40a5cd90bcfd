// kiln in a Hono app, under /api/kiln, for signed-in users: `node --conditions=@kiln/source examples/hono/main.ts`.
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { serve } from "@hono/node-server"
import { builtInKinds, createEngine } from "@kiln/core"
import { fetchHandler } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Hono } from "hono"
import { setCookie } from "hono/cookie"
import { Sessions } from "./Sessions.ts"

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

const sessions = new Sessions()
const kiln = await fetchHandler(engine, {
  publicUrl: `${publicUrl}/api/kiln`,
  // Replaces API keys. Jobs belong to one user of a team; nobody else can find them.
  authenticate: (request) => {
    const user = sessions.userOf(request)
    return user && { projectId: user.team, keyId: user.name, mode: "sandbox", scopes: ["audio.create"] }
  },
})

const app = new Hono()
app.post("/session", async (c) => {
  const session = sessions.open(await c.req.json())
  if (session === undefined) return c.text("wrong name or password", 401)
  setCookie(c, Sessions.cookie, session, { httpOnly: true, sameSite: "Lax", secure: publicUrl.startsWith("https:") })
  return c.body(null, 204)
})
app.all("/api/kiln/*", (c) => kiln(c.req.raw))

const server = serve({ fetch: app.fetch, port, hostname: "127.0.0.1" })
await once(server, "listening")
console.log(`listens at http://127.0.0.1:${(server.address() as AddressInfo).port}`)

const [signal] = await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")])
console.log(`stops at ${signal}`)
// The server first: requests in progress may finish for ten seconds. Then the engine, whose running jobs may finish.
setTimeout(() => "closeAllConnections" in server && server.closeAllConnections(), 10_000).unref()
await new Promise((resolve) => server.close(resolve))
await engine.stop()
console.log("stopped")
