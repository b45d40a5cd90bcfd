// kiln in a Hono app, under /api/kiln, for users who are signed in: `node --conditions=@kiln/source examples/hono/main.ts`.
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { serve } from "@hono/node-server"
import { createEngine } from "@kiln/core"
import { fetchHandler } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Hono } from "hono"
import { setCookie } from "hono/cookie"
import { Sessions } from "./Sessions.ts"

const port = Number(process.env["PORT"] ?? 3000)
// Where clients reach this server. Behind a proxy that is another place than the one it listens at.
const publicUrl = process.env["PUBLIC_URL"] ?? `http://127.0.0.1:${port}`

const engine = await createEngine({
  // Forgotten with the process; `sqliteStore` and `postgresStore`, `fileBlobs` and `unstorageBlobs` are not.
  store: memoryStore(),
  blobs: memoryBlobs(),
  providers: { sandbox: sandboxProviders() },
})

const sessions = new Sessions()
const kiln = await fetchHandler(engine, {
  publicUrl: `${publicUrl}/api/kiln`,
  // Asked in the place of API keys. Jobs belong to a user of a team: nobody else finds them.
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
// First stop the server, which has ten seconds to finish its responses. Then stop the engine, which finishes its running jobs.
setTimeout(() => "closeAllConnections" in server && server.closeAllConnections(), 10_000).unref()
await new Promise((resolve) => server.close(resolve))
await engine.stop()
console.log("stopped")
