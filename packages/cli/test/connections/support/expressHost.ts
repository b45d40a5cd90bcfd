// A program that lives in Express with kiln mounted under /api/kiln, as a process of its own: prints one line of JSON once it
// listens, and one line for every exception or rejection that nothing caught. Ends with standard input.
import type { AddressInfo } from "node:net"
import { builtInKinds, createEngine } from "@kiln/core"
import { createApiKey, nodeHandler } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { MemoryBlobStore, memoryStore } from "@kiln/testing"
import { blobAdapter } from "@kiln/core/ports"
import express from "express"

const report = (kind: string) => (error: unknown) =>
  void process.stdout.write(`${JSON.stringify({ [kind]: error instanceof Error ? error.stack : String(error) })}\n`)
process.on("uncaughtException", report("uncaught")).on("unhandledRejection", report("uncaught"))

const engine = await createEngine({
  store: memoryStore(),
  blobs: blobAdapter(MemoryBlobStore.layer),
  kinds: builtInKinds(),
  providers: { sandbox: sandboxProviders({ steering: true }) },
  log: () => {},
})
const off = { perMinute: 0, burst: 0 }
const handler = await nodeHandler(engine, {
  publicUrl: "https://app.example/api/kiln",
  pages: true,
  rateLimits: { create: off, upload: off, read: off, delete: off, authentication: off, pages: off },
})
const { key } = await createApiKey(engine, { scopes: ["audio.create", "images.create"] })
const server = express()
  .use(handler)
  .get("/healthz", (_, response) => void response.send("ok"))
  .listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo
    process.stdout.write(`${JSON.stringify({ port, key })}\n`)
  })
// No clean shutdown is necessary.
process.stdin.once("end", () => process.kill(process.pid, "SIGKILL")).resume()
