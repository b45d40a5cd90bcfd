import { fork } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { type Profiler, Session } from "node:inspector/promises"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { builtInKinds, createEngine, type StoreAdapter } from "@kiln/core"
import { createApiKey, nodeHandler } from "@kiln/http/mount"
import { startCluster } from "@kiln/postgres-lab"
import { sandboxProviders } from "@kiln/provider-sandbox"

const repetitions = 6
const input = { input: "Good evening." }
const packages = join(import.meta.dirname, "../../packages")

/** Place of the store and the blobs, for both processes. */
interface Place {
  readonly url: string
  readonly directory: string
}

const storeAt = ({ directory, url }: Place): StoreAdapter =>
  url === "" ? sqliteStore({ path: join(directory, "kiln.db") }) : postgresStore({ url })

const open = (place: Place, autoStart: boolean) =>
  createEngine({
    store: storeAt(place),
    blobs: fileBlobs({ directory: join(place.directory, "blobs") }),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders() },
    autoStart,
    log: false,
    settings: { sweepIntervalMs: 3_600_000, pruneIntervalMs: 3_600_000 },
  })

/** The other process: submits a job whenever it is asked to. */
if (process.argv[2] === "--submit") {
  const engine = await open(JSON.parse(process.argv[3] ?? "") as Place, false)
  process.on("message", () => void engine.submit("speech_synthesis", input))
  process.on("disconnect", () => process.exit())
  process.send?.("ready")
}

/** The files of `packages/NAME/src` in which a function was called since the last look. */
const calledFiles = async (session: Session): Promise<ReadonlySet<string>> => {
  const { result } = await session.post("Profiler.takePreciseCoverage")
  const isCalled = ({ functionName, ranges }: Profiler.FunctionCoverage): boolean =>
    // The function without a name at the beginning of a file is the module itself, which runs when it is loaded.
    (functionName !== "" || ranges[0]?.startOffset !== 0) && ranges.some(({ count }) => count > 0)
  return new Set(
    result
      .filter(({ functions, url }) => url.startsWith(`file://${packages}/`) && functions.some(isCalled))
      .map(({ url }) => url.slice(`file://${packages}/`.length))
      .filter((path) => path.split("/")[1] === "src"),
  )
}

/** Returns the files that run each time: background work, such as a sweep, runs only now and then. */
const filesOf = async (session: Session, run: () => Promise<void>): Promise<ReadonlyArray<string>> => {
  await run()
  let common: ReadonlySet<string> | undefined
  for (let index = 0; index < repetitions; index++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    await calledFiles(session)
    await run()
    const called = await calledFiles(session)
    common = common === undefined ? called : new Set([...common].filter((file) => called.has(file)))
  }
  return [...(common ?? [])].sort()
}

/** The files that run for a request and for an attempt, by operation. */
export interface FilesThatRun {
  readonly post: ReadonlyArray<string>
  readonly attempt: ReadonlyArray<string>
  readonly get: ReadonlyArray<string>
}

const measure = async (place: Place): Promise<FilesThatRun> => {
  const session = new Session()
  session.connect()
  await session.post("Profiler.enable")
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false })
  const idle = await open(place, false)
  const handler = await nodeHandler(idle, { publicUrl: "http://127.0.0.1" })
  const server = createServer(handler).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { key } = await createApiKey(idle, { project: "files", scopes: ["audio.create"] })
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
  let id = ""
  let count = 0
  const post = await filesOf(session, async () => {
    const response = await fetch(`${base}/v1/audio/speech`, {
      method: "POST",
      headers: { ...headers, "idempotency-key": `key-${count++}` },
      body: JSON.stringify(input),
    })
    if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`)
    id = ((await response.json()) as { readonly id: string }).id
  })
  const get = await filesOf(session, async () => {
    const response = await fetch(`${base}/v1/jobs/${id}`, { headers })
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
    await response.text()
  })
  server.close()
  server.closeAllConnections()
  await idle.stop()

  const working = await open(place, true)
  const other = fork(import.meta.filename, ["--submit", JSON.stringify(place)], { execArgv: process.execArgv })
  await once(other, "message")
  const attempt = await filesOf(session, async () => {
    const done = Promise.withResolvers<void>()
    using _ = working.on("completed", () => done.resolve())
    other.send("submit")
    await done.promise
    // The end of an attempt cleans up behind the event.
    await new Promise((resolve) => setTimeout(resolve, 50))
  })
  other.disconnect()
  await working.stop()
  session.disconnect()
  return { post, attempt, get }
}

/** Measures on one of the stores, in this process. */
export const filesThatRun = async (store: "sqlite" | "postgres"): Promise<FilesThatRun> => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-files-"))
  try {
    if (store === "sqlite") return await measure({ url: "", directory })
    await using cluster = await startCluster({ inMemory: true })
    return await measure({ url: cluster.url, directory })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
