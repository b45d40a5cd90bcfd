import { mkdtempSync, writeFileSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { setTimeout as sleep } from "node:timers/promises"
import { httpLoad } from "./httpLoad.ts"
import { type Server, startBare, startKiln, startKilnWithSpeech } from "./servers.ts"
import { type Bench, type Figures, type Metric, quantile, type Subject, subjectsOf, type Workload } from "./Workload.ts"

const MB = 1_000_000
const downloadBytes = 20 * MB
const uploadBytes = 24 * MB

/** Uncompressed audio of this many bytes. */
const wav = (bytes: number): Buffer => {
  const file = Buffer.alloc(bytes, 128)
  file.write("RIFF", 0)
  file.writeUInt32LE(bytes - 8, 4)
  file.write("WAVEfmt ", 8)
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(1, 20)
  file.writeUInt16LE(1, 22)
  file.writeUInt32LE(32_000, 24)
  file.writeUInt32LE(32_000, 28)
  file.writeUInt16LE(1, 32)
  file.writeUInt16LE(8, 34)
  file.write("data", 36)
  file.writeUInt32LE(bytes - 44, 40)
  return file
}

const headersOf = (key: string) => ({
  authorization: `Bearer ${key}`,
  "content-type": "application/json",
})

const post = async (server: Server, key: string, path: string, body: object): Promise<Response> => {
  const headers = { ...headersOf(key), "idempotency-key": crypto.randomUUID() }
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`)
  return response
}

interface PolledJob {
  readonly status: string
  readonly output?: { readonly audio_url: string }
}

/** Creates a speech job, waits until it is done, and returns its path and the last response. */
const finishedJob = async (server: Server, key: string) => {
  const created = await post(server, key, "/v1/audio/speech", { input: "Hello from the bench." })
  const { id } = (await created.json()) as { readonly id: string }
  const path = `/v1/jobs/${id}`
  while (true) {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers: headersOf(key) })
    const body = await response.text()
    const job = JSON.parse(body) as PolledJob
    if (job.status === "done") return { path, body, job, headers: Object.fromEntries(response.headers) }
    if (job.status === "failed") throw new Error(`the job failed: ${body}`)
    await sleep(20)
  }
}

/** Returns kiln's responses to a GET and a POST, for the bare server to repeat. */
const capture = async (built: string) => {
  await using server = await startKiln(built)
  const key = server.listening.first_key?.key ?? ""
  const { body, headers } = await finishedJob(server, key)
  const created = await post(server, key, "/v1/audio/speech", { input: "Hello from the bench." })
  return {
    get: { status: 200, headers, body },
    post: { status: created.status, headers: Object.fromEntries(created.headers), body: await created.text() },
  }
}

const connections = 64

const getRequest = (path: string, key: string): Buffer =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\n\r\n`)

const postRequest = (key: string): (() => Buffer) => {
  const body = JSON.stringify({ input: "Hello from the bench." })
  const head = `POST /v1/audio/speech HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`
  const run = crypto.randomUUID()
  let count = 0
  return () => {
    count += 1
    return Buffer.from(`${head}idempotency-key: ${run}-${count}\r\n\r\n${body}`)
  }
}

/** The number of jobs that a server with SQLite has finished. */
const finishedIn = (server: Server): number => {
  const database = new DatabaseSync(join(server.directory, "data/kiln.db"), { readOnly: true })
  try {
    return Number(database.prepare("SELECT count(*) AS count FROM kiln_jobs WHERE status = 'done'").get()?.["count"])
  } finally {
    database.close()
  }
}

const secondsOf = (bench: Bench): number => (bench.quick ? 2 : 6)

const load = async (bench: Bench, server: Server, make: () => Buffer, status: number): Promise<Figures> => {
  const common = { port: server.port, connections, request: make, status }
  await httpLoad({ ...common, seconds: secondsOf(bench) / 3 })
  const { latenciesMs, ofCore, rate } = await httpLoad({ ...common, seconds: secondsOf(bench) })
  return {
    rate,
    p50: quantile(latenciesMs, 0.5),
    p99: quantile(latenciesMs, 0.99),
    generator: ofCore * 100,
    peakMb: server.peakMb(),
  }
}

/** Receives or sends whole files on some connections at once; returns MB per second. */
const transfer = async (bench: Bench, server: Server, bytes: number, once: () => Promise<void>): Promise<Figures> => {
  await once()
  const endsAt = performance.now() + secondsOf(bench) * 1_000
  const from = performance.now()
  let count = 0
  const call = async (): Promise<void> => {
    while (performance.now() < endsAt) {
      await once()
      count += 1
    }
  }
  await Promise.all([call(), call()])
  return { rate: (count * bytes) / MB / ((performance.now() - from) / 1_000), peakMb: server.peakMb() }
}

const download = (url: string, bytes: number): Promise<void> =>
  new Promise((resolve, reject) => {
    request(url, (response) => {
      let received = 0
      response.on("data", (piece: Buffer) => (received += piece.length))
      response.on("error", reject)
      response.on("end", () =>
        received === bytes ? resolve() : reject(new Error(`${url}: ${response.statusCode}, ${received} bytes`)),
      )
    })
      .on("error", reject)
      .end()
  })

const upload = (url: string, file: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    const headers = { "content-type": "audio/wav", "content-length": file.length }
    request(url, { method: "PUT", headers }, (response) => {
      let text = ""
      response.setEncoding("utf8").on("data", (piece: string) => (text += piece))
      response.on("end", () =>
        (response.statusCode ?? 500) < 300 ? resolve() : reject(new Error(`PUT: ${response.statusCode} ${text}`)),
      )
    })
      .on("error", reject)
      .end(file)
  })

const peak: Metric = { key: "peakMb", title: "peak memory", unit: "MB" }
const latency: ReadonlyArray<Metric> = [
  { key: "rate", title: "", unit: "/s" },
  { key: "p50", title: "p50", unit: "ms" },
  { key: "p99", title: "p99", unit: "ms" },
  { key: "generator", title: "share of a core that the load generator used", unit: "%" },
  peak,
]
const throughput: ReadonlyArray<Metric> = [{ key: "rate", title: "", unit: "MB/s" }, peak]

/** `kiln serve` with SQLite and files, on one core, against bare `node:http` with the same answers. */
export const httpWorkloads = (bench: Bench): ReadonlyArray<Workload> => {
  const kiln: Subject = { name: "kiln", role: "kiln" }
  let captured: ReturnType<typeof capture> | undefined
  const answers = () => (captured ??= capture(bench.kilnOf(kiln)))
  const files = mkdtempSync(join(tmpdir(), "kiln-bench-"))
  bench.atEnd(files)
  const file = join(files, "speech.wav")
  const bare = async (which: "get" | "post"): Promise<Server> =>
    startBare(bench.programs, { ...(await answers())[which], file })
  const workload = (
    id: string,
    title: string,
    metrics: ReadonlyArray<Metric>,
    run: (subject: Subject) => Promise<Figures>,
    limits: ReadonlyArray<string> = ["bare node:http"],
  ): Workload => ({
    id: `http/${id}`,
    group: "HTTP",
    title,
    metrics,
    subjects: [...subjectsOf(bench, [], false), ...limits.map((name): Subject => ({ name, role: "limit" }))],
    run,
  })

  const get = async (subject: Subject): Promise<Figures> => {
    if (subject.role === "limit") {
      await using server = await bare("get")
      const bytes = getRequest("/answer", "none")
      return await load(bench, server, () => bytes, 200)
    }
    await using server = await startKiln(bench.kilnOf(subject))
    const key = server.listening.first_key?.key ?? ""
    const bytes = getRequest((await finishedJob(server, key)).path, key)
    return await load(bench, server, () => bytes, 200)
  }

  const create = async (subject: Subject): Promise<Figures> => {
    await using server =
      subject.role === "limit" ? await bare("post") : await startKiln(bench.kilnOf(subject), { role: "api" })
    return await load(bench, server, postRequest(server.listening.first_key?.key ?? "none"), 202)
  }

  /** The slots are few, so that all versions run about as many jobs: a worker that runs more leaves less of the core to the requests. */
  const createBeside = async (subject: Subject): Promise<Figures> => {
    await using server = await startKiln(bench.kilnOf(subject), { slots: 8 })
    const from = performance.now()
    const figures = await load(bench, server, postRequest(server.listening.first_key?.key ?? "none"), 202)
    return { ...figures, ran: finishedIn(server) / ((performance.now() - from) / 1_000) }
  }

  const send = async (subject: Subject): Promise<Figures> => {
    writeFileSync(file, wav(downloadBytes))
    if (subject.role === "limit") {
      await using server = await bare("get")
      const url = `http://127.0.0.1:${server.port}/file${subject.name.endsWith("SHA-256") ? "?hash" : ""}`
      return await transfer(bench, server, downloadBytes, () => download(url, downloadBytes))
    }
    const { key, server } = await startKilnWithSpeech(bench.kilnOf(subject), file)
    await using _ = server
    const { job } = await finishedJob(server, key)
    return await transfer(bench, server, downloadBytes, () => download(job.output?.audio_url ?? "", downloadBytes))
  }

  const receive = async (subject: Subject): Promise<Figures> => {
    const body = wav(uploadBytes)
    if (subject.role === "limit") {
      await using server = await bare("get")
      return await transfer(bench, server, uploadBytes, () => upload(`http://127.0.0.1:${server.port}/`, body))
    }
    await using server = await startKiln(bench.kilnOf(subject), { role: "api" })
    const key = server.listening.first_key?.key ?? ""
    return await transfer(bench, server, uploadBytes, async () => {
      const declared = { format: "wav", declared_seconds: Math.floor(uploadBytes / 32_000) }
      const made = (await (await post(server, key, "/v1/audio/uploads", declared)).json()) as {
        readonly upload_url: string
      }
      await upload(made.upload_url, body)
    })
  }

  return [
    workload("get", "GET a finished job, 64 connections", latency, get),
    workload("post", "POST, durable, 64 connections", latency, create),
    {
      ...workload(
        "post-beside",
        "POST, durable, 64 connections, with a worker of 8 slots beside it",
        [...latency, { key: "ran", title: "jobs run meanwhile", unit: "/s" }],
        createBeside,
        [],
      ),
      isRealistic: true,
    },
    workload("download", "download of 20 MB", throughput, send, ["bare node:http", "bare + SHA-256"]),
    workload("upload", "upload of 24 MB", throughput, receive, ["bare + SHA-256, fsync"]),
  ]
}
