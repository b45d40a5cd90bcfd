import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { Agent, createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { builtInKinds, createEngine } from "@kiln/core"
import { createApiKey, nodeHandler } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import fc from "fast-check"
import { operations, type Response } from "./description.ts"
import { type Generated, type Present, requestsTo } from "./requests.ts"

const connections = 16
const off = { perMinute: 0, burst: 0 }

/** Starts the service without limits, with jobs in each status. Live jobs are not active. */
const start = async () => {
  const engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders() },
    log: false,
    settings: { queueCap: 0, uploadCap: { uploads: 0, bytes: 0 } },
  })
  const server = createServer(
    { maxHeaderSize: 16_384 },
    await nodeHandler(engine, {
      publicUrl: "https://api.kiln.example",
      rateLimits: { create: off, upload: off, read: off, delete: off, authentication: off },
    }),
  )
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const scopes = ["audio.create", "images.create"]
  const made = await createApiKey(engine, { project: "acme", scopes })
  const narrow = await createApiKey(engine, { project: "acme", scopes: ["images.create"] })
  return {
    engine,
    keys: [made.key, made.key, made.key, made.key, narrow.key],
    wide: made.key,
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
      await engine.stop({ drainMs: 0 })
    },
  }
}

/** A job or an upload. */
interface Made {
  readonly id: string
  readonly upload_url: string
}

/** Makes jobs, uploads and signed URLs that requests can name. */
const populate = async ({ keys, port, wide }: Awaited<ReturnType<typeof start>>): Promise<Present> => {
  const origin = `http://127.0.0.1:${port}`
  const headers = { authorization: `Bearer ${wide}`, "content-type": "application/json" }
  const post = async (path: string, body: object): Promise<Made> => {
    const given = { ...headers, "idempotency-key": randomUUID() }
    const response = await fetch(origin + path, { method: "POST", headers: given, body: JSON.stringify(body) })
    return (await response.json()) as Made
  }
  const jobs = await Promise.all([
    post("/v1/audio/speech", { input: "Hello" }),
    post("/v1/audio/speech", { input: "sandbox:fail:content_rejected" }),
    post("/v1/images/generations", { prompt: "A lighthouse" }),
  ])
  const announced = await Promise.all(
    Array.from({ length: 60 }, () => post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 })),
  )
  const targetOf = (url: string): string => url.slice("https://api.kiln.example".length)
  const arriving = announced.slice(0, 30)
  await Promise.all(
    arriving.map(({ upload_url: url }) =>
      fetch(origin + targetOf(url), { method: "PUT", headers: { "content-type": "audio/wav" }, body: silence }),
    ),
  )
  const polled = await fetch(`${origin}/v1/jobs/${jobs[0].id}`, { headers: { ...headers, prefer: "wait=30" } })
  const { output } = (await polled.json()) as { readonly output: { readonly audio_url: string } }
  const files = [targetOf(output.audio_url)]
  const transfers = announced.map(({ upload_url: url }) => targetOf(url))
  return {
    keys,
    jobs: jobs.map(({ id }) => id),
    uploads: arriving.map(({ id }) => id),
    signed: { getFile: files, headFile: files, putFile: transfers },
  }
}

/** A second of silence. */
const silence = (() => {
  const file = Buffer.alloc(44 + 16_000)
  file.write("RIFF", 0)
  file.writeUInt32LE(36 + 16_000, 4)
  file.write("WAVEfmt ", 8)
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(1, 20)
  file.writeUInt16LE(1, 22)
  file.writeUInt32LE(8_000, 24)
  file.writeUInt32LE(16_000, 28)
  file.writeUInt16LE(2, 32)
  file.writeUInt16LE(16, 34)
  file.write("data", 36)
  file.writeUInt32LE(16_000, 40)
  return file
})()

/** The headers of a request that are sent. */
const sentHeaders = ({ headers }: Generated): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).filter(([, text]) => text !== ""))

const send = (agent: Agent, port: number, generated: Generated): Promise<Response> =>
  new Promise((resolve, reject) => {
    const { bytes, operation, target, value } = generated
    const body = value === undefined ? bytes : Buffer.from(JSON.stringify(value))
    const sent = request({
      agent,
      port,
      host: "127.0.0.1",
      method: operation.method,
      path: target,
      headers: { ...sentHeaders(generated), ...(body !== undefined && { "content-length": body.length }) },
    })
    sent.on("error", reject)
    sent.on("response", (response) => {
      const pieces: Array<Buffer> = []
      response.on("data", (piece: Buffer) => pieces.push(piece))
      response.on("error", reject)
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers as Readonly<Record<string, string>>,
          body: Buffer.concat(pieces).toString(),
        }),
      )
    })
    sent.end(body)
  })

/** Whether the document allows the body and the headers of a creation. */
const isAllowed = (generated: Generated): boolean => {
  const { operation, value } = generated
  const headers = sentHeaders(generated)
  return (
    operation.accepts(value === undefined ? undefined : JSON.parse(JSON.stringify(value))) &&
    operation.acceptsHeaders(headers) &&
    /^application\/json\b/.test(headers["content-type"] ?? "")
  )
}

/** Refusals that depend on the jobs and uploads that there are, which a document cannot know. */
const isDependent = ({ body, status }: Response): boolean =>
  [409, 410, 422].includes(status) || body.includes('"upload_not_found"')

const differenceOf = (generated: Generated, response: Response, wide: string): string | undefined => {
  const { headers, operation } = generated
  const { body, status } = response
  if (status >= 500) return `${status}`
  const different = operation.differenceOf(response)
  if (different !== undefined || !operation.id.startsWith("create")) return different
  const allowed = isAllowed(generated)
  if (status < 300) return allowed ? undefined : `accepted with ${status}, which the document forbids`
  const mayCreate = headers["authorization"] === `Bearer ${wide}`
  return allowed && mayCreate && !isDependent(response)
    ? `refused with ${status} ${body}, which the document allows`
    : undefined
}

/** Differences with the same beginning are one. */
const shownBeginning = 120
const maxDifferences = 50

const describe = ({ headers, operation, target, value }: Generated, difference: string): string =>
  [
    `${operation.id}: ${difference}`,
    `${operation.method} ${target}`,
    JSON.stringify(headers).slice(0, 400),
    JSON.stringify(value)?.slice(0, 300),
  ].join("\n  ")

/** The result of a run. */
export interface Comparison {
  readonly accepted: number
  readonly statuses: Readonly<Record<string, number>>
  /** Differences, each with the first request that shows it. */
  readonly differences: ReadonlyArray<string>
}

/** Sends generated requests and compares each response with the document. */
export const compareWithDocument = async (count: number, seed: number): Promise<Comparison> => {
  await using service = await start()
  const { port, wide } = service
  const present = await populate(service)
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const differences = new Map<string, string>()
  const statuses: Record<string, number> = {}
  let accepted = 0
  const batch = 2_000
  for (let from = 0; from < count; from += batch) {
    const size = Math.min(batch, count - from)
    const generated = fc.sample(requestsTo(operations, present), { numRuns: size, seed: seed + from })
    let next = 0
    const client = async () => {
      while (next < generated.length) {
        const one = generated[next++]
        if (one === undefined) return
        const response = await send(agent, port, one)
        const key = `${one.operation.id} ${response.status}`
        statuses[key] = (statuses[key] ?? 0) + 1
        if (response.status < 300) accepted += 1
        const different = differenceOf(one, response, wide)
        if (different === undefined || differences.size >= maxDifferences) continue
        const beginning = `${one.operation.id}: ${different}`.slice(0, shownBeginning)
        if (!differences.has(beginning)) differences.set(beginning, describe(one, different))
      }
    }
    await Promise.all(Array.from({ length: connections }, client))
  }
  agent.destroy()
  return { accepted, statuses, differences: [...differences.values()] }
}
