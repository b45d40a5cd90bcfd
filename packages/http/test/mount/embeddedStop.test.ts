import { mkdtempSync, rmSync } from "node:fs"
import { get, type IncomingMessage } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { finished } from "node:stream/promises"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { builtInKinds, createEngine, jobKind } from "@kiln/core"
import {
  createApiKey,
  fetchHandler,
  jobRoute,
  type MountedEngine,
  type MountOptions,
  nodeHandler,
} from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { wav } from "@kiln/service-lab"
import { Connection, requestBytes } from "../contract/support/Connection.ts"
import { Client } from "./support/Client.ts"
import { listenerOf } from "./support/listenerOf.ts"
import { listen, publicUrl } from "./support/servers.ts"

/** A kind whose job goes on until the test lets it end, and whose file is larger than what sockets hold between them. */
const bakingUntil = (done: Promise<void>) =>
  jobKind({
    name: "baking",
    request: z.strictObject({}),
    files: ["pot"],
    run: async ({ writeFile }) => {
      await done
      await writeFile("pot", async () => ({ data: new Uint8Array(16_000_000), mediaType: "application/octet-stream" }))
      return { output: {} }
    },
  })

type Shared = Pick<MountOptions<never>, "publicUrl" | "routes">
const handlers: ReadonlyArray<
  readonly [string, (engine: MountedEngine, options: Shared) => Promise<Parameters<typeof listen>[0]>]
> = [
  ["Node's handler", nodeHandler],
  ["a fetch handler", async (engine, options) => listenerOf(await fetchHandler(engine, options))],
]

/** A directory for stores that outlive an engine. */
const directory = () => {
  const path = mkdtempSync(join(tmpdir(), "kiln-embedded-stop-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}
const openIn = (path: string) =>
  createEngine({
    store: sqliteStore({ path: join(path, "kiln.db") }),
    blobs: fileBlobs({ directory: join(path, "blobs") }),
    kinds: builtInKinds(),
    worker: false,
    log: false,
  })

describe.each(handlers)("when an engine stops, %s", (_, mount) => {
  const openOven = async () => {
    const oven = Promise.withResolvers<void>()
    const kind = bakingUntil(oven.promise)
    const engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [...builtInKinds(), kind],
      providers: { sandbox: sandboxProviders() },
      log: false,
    })
    const server = await listen(await mount(engine, { publicUrl, routes: [jobRoute(kind, { path: "/v1/pots" })] }))
    const { key } = await createApiKey(engine, { scopes: ["baking.create", "audio.create"] })
    return { engine, client: new Client(server.port, key), openTheDoor: oven.resolve, server }
  }

  it("refuses requests while jobs still have time to finish, and reports it", async () => {
    const { client, engine, openTheDoor, server } = await openOven()
    await using _server = server
    const baked: Array<string> = []
    engine.on("completed", ({ jobId }) => void baked.push(jobId))
    const { body: job } = await client.ask("POST", "/v1/pots", {})
    while ((await client.ask("GET", `/v1/pots/${job.id}`)).body.status === "queued");

    const stopped = engine.stop()
    const refused = { status: 503, body: { error: { code: "service_unavailable" } } }
    expect(await client.ask("POST", "/v1/audio/speech", { input: "x" })).toMatchObject(refused)
    const polled = await client.ask("GET", `/v1/pots/${job.id}`)
    expect([polled, polled.headers.get("retry-after")]).toEqual([expect.objectContaining({ status: 503 }), "5"])
    expect(baked).toEqual([])
    openTheDoor()
    await stopped
    expect(baked).toEqual([job.id])
    expect(await client.ask("GET", `/v1/pots/${job.id}`)).toMatchObject(refused)
    expect((await client.ask("GET", "/healthz")).status).toBe(200)
    expect((await client.ask("GET", "/readyz")).status).toBe(503)
  })

  it("releases a running transfer, whose URL accepts the file as soon as another engine runs", async () => {
    using place = directory()
    const first = await openIn(place.path)
    const { key } = await createApiKey(first, { scopes: ["audio.create"] })
    await using server = await listen(await mount(first, { publicUrl }))
    const client = new Client(server.port, key)
    const { body: upload } = await client.ask("POST", "/v1/audio/uploads", { format: "wav", declared_seconds: 1 })
    const { pathname, search } = new URL(upload.upload_url)
    const headers = Object.entries({ host: "x", "content-type": "audio/wav", "content-length": "1000000" })
    const sending = await Connection.open(server.port)
    sending.send(requestBytes({ method: "PUT", target: pathname + search, headers, body: wav(1) }))
    const put = (at: Client, type: string) =>
      fetch(at.local(upload.upload_url), {
        method: "PUT",
        headers: { "content-type": type },
        body: new Uint8Array(wav(1)),
      })
    // Of a transfer that runs the type is not looked at.
    while ((await put(client, "text/plain")).status !== 409);
    await first.stop()
    expect((await put(client, "audio/wav")).status).toBe(503)

    await using second = await openIn(place.path)
    await using next = await listen(await mount(second, { publicUrl }))
    expect((await put(new Client(next.port, key), "audio/wav")).status).toBe(204)
    sending.destroy()
  })

  it("does not wait for a slow download, which completes or is cut off", async () => {
    const { client, engine, openTheDoor, server } = await openOven()
    await using _server = server
    openTheDoor()
    const created = await client.ask("POST", "/v1/pots", {})
    const { output } = await client.finished(created.headers.get("location")!)
    const download = await new Promise<IncomingMessage>((resolve) => get(client.local(output.pot_url), resolve))
    // Nobody reads it: its sender waits.
    await engine.stop()
    let bytes = 0
    download.on("data", (piece: Buffer) => void (bytes += piece.length))
    const isWhole = await finished(download).then(
      () => true,
      () => false,
    )
    expect(bytes === 16_000_000).toBe(isWhole)
  })
})
