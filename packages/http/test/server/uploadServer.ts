// A service in a process of its own, so that its memory can be measured: prints where it is, then waits to be ended.
import { FileBlobStore } from "@kiln/adapter-blobs"
import { Layer } from "effect"
import { parseRateLimits } from "../../src/index.ts"
import { startServer } from "./startServer.ts"

const limits = parseRateLimits("off")
const server = await startServer({
  blobs: Layer.orDie(FileBlobStore.layer({ directory: process.argv[2] ?? "" })),
  http: limits.ok ? { rateLimits: limits.limits } : {},
})
const { secret } = await server.createKey()
process.stdout.write(`${JSON.stringify({ url: server.url, secret })}\n`)
process.once("SIGTERM", () => void server.stop())
