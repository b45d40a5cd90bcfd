import { readFileSync } from "node:fs"
import { connect } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { type Server, startKiln } from "./servers.ts"
import { type Bench, type Figures, type Metric, type Place, quantile, subjectsOf, type Workload } from "./Workload.ts"

// What a user of the service sees: speech of the sandbox from the request to the bytes of the file, with default settings.

const clients = 16
/** Pause of a client before each poll, in milliseconds. */
const pollEveryMs = 5

interface Response {
  readonly status: number
  readonly text: string
  readonly bytes: number
}

/** A connection that is kept open. Cheap, so that the clients are not what is measured: a response is read by its length only. */
class Connection implements Disposable {
  readonly #socket
  #received: Array<Buffer> = []
  #size = 0
  #wanted = Infinity
  #settle: { readonly resolve: (response: Response) => void; readonly reject: (error: Error) => void } | undefined

  constructor(port: number) {
    this.#socket = connect({ host: "127.0.0.1", port, noDelay: true })
    this.#socket.on("error", (error) => this.#settle?.reject(error))
    this.#socket.on("close", () => this.#settle?.reject(new Error("the server closed a connection")))
    this.#socket.on("data", (piece: Buffer) => this.#read(piece))
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
  }

  #read(piece: Buffer): void {
    this.#received.push(piece)
    this.#size += piece.length
    if (this.#wanted === Infinity) {
      const bytes = Buffer.concat(this.#received)
      const end = bytes.indexOf("\r\n\r\n")
      if (end === -1) return
      const length = /\r\ncontent-length: *(\d+)/i.exec(bytes.toString("latin1", 0, end))?.[1]
      if (length === undefined) return this.#settle?.reject(new Error("a response without a length"))
      this.#received = [bytes]
      this.#wanted = end + 4 + Number(length)
    }
    if (this.#size < this.#wanted) return
    const bytes = Buffer.concat(this.#received)
    const end = bytes.indexOf("\r\n\r\n") + 4
    this.#received = []
    this.#size = 0
    this.#wanted = Infinity
    const text = bytes.toString("latin1", end, Math.min(bytes.length, end + 4_096))
    this.#settle?.resolve({ status: Number(bytes.toString("latin1", 9, 12)), text, bytes: bytes.length - end })
  }

  send(request: string): Promise<Response> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#socket.write(request)
    })
  }
}

const expectStatus = (what: string, wanted: number, response: Response): Response => {
  if (response.status !== wanted) throw new Error(`${what}: ${response.status} ${response.text}`)
  return response
}

/** Runs one job from its request to its file. */
const speak = async (connection: Connection, head: string, name: string): Promise<void> => {
  const body = JSON.stringify({ input: `Hello from the bench, ${name}.` })
  const create = `POST /v1/audio/speech HTTP/1.1\r\n${head}content-type: application/json\r\nidempotency-key: ${name}\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  const { text } = expectStatus("POST", 202, await connection.send(create))
  const { id } = JSON.parse(text) as { readonly id: string }
  while (true) {
    await sleep(pollEveryMs)
    const polled = expectStatus("poll", 200, await connection.send(`GET /v1/jobs/${id} HTTP/1.1\r\n${head}\r\n`))
    const job = JSON.parse(polled.text) as { readonly status: string; readonly output?: { readonly audio_url: string } }
    if (job.status === "failed") throw new Error(`the job failed: ${polled.text}`)
    if (job.status !== "done") continue
    const { pathname, search } = new URL(job.output?.audio_url ?? "")
    const file = await connection.send(`GET ${pathname}${search} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`)
    if (expectStatus("download", 200, file).bytes < 1_000) throw new Error("the file is too short")
    return
  }
}

/** Returns the processor time that a process has used, in milliseconds; NaN where that is unknown. */
const processorMsOf = (pid: number): number => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ") ?? []
    // Ticks of 10 ms in user and kernel mode.
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return Number.NaN
  }
}

const measure = async (server: Server, seconds: number): Promise<Figures> => {
  const head = `host: 127.0.0.1\r\nauthorization: Bearer ${server.listening.first_key?.key ?? ""}\r\n`
  const run = crypto.randomUUID()
  let count = 0
  const drive = async (forSeconds: number): Promise<ReadonlyArray<number>> => {
    const latenciesMs: Array<number> = []
    const endsAt = performance.now() + forSeconds * 1_000
    const client = async (): Promise<void> => {
      using connection = new Connection(server.port)
      while (performance.now() < endsAt) {
        const from = performance.now()
        await speak(connection, head, `${run}-${(count += 1)}`)
        latenciesMs.push(performance.now() - from)
      }
    }
    await Promise.all(Array.from({ length: clients }, client))
    return latenciesMs
  }
  await drive(seconds / 3)
  const [from, own, used] = [performance.now(), process.cpuUsage(), processorMsOf(server.pid)]
  const latenciesMs = await drive(seconds)
  const [tookMs, { system, user }] = [performance.now() - from, process.cpuUsage(own)]
  return {
    rate: latenciesMs.length / (tookMs / 1_000),
    p50: quantile(latenciesMs, 0.5),
    p99: quantile(latenciesMs, 0.99),
    serverMs: (processorMsOf(server.pid) - used) / latenciesMs.length,
    clientMs: (user + system) / 1_000 / latenciesMs.length,
  }
}

const metrics: ReadonlyArray<Metric> = [
  { key: "rate", title: "", unit: "/s" },
  { key: "p50", title: "p50", unit: "ms" },
  { key: "p99", title: "p99", unit: "ms" },
  { key: "serverMs", title: "processor time of the server a job", unit: "ms" },
  { key: "clientMs", title: "processor time of the clients a job", unit: "ms" },
]

/** `kiln serve` with default settings except the limits of rates and queues, on all cores: POST, poll, download. */
export const speechWorkloads = (bench: Bench): ReadonlyArray<Workload> =>
  (["sqlite", "postgres"] as const).map((store) => ({
    id: `http/speech-${store}`,
    group: "HTTP",
    title: `speech from POST to file, ${clients} clients, ${store === "sqlite" ? "SQLite" : "Postgres"} and files`,
    metrics,
    isRealistic: true,
    subjects: subjectsOf(bench, [], false),
    run: async (subject) => {
      await using place: Place | undefined = store === "postgres" ? await bench.place("postgres") : undefined
      await using server = await startKiln(bench.kilnOf(subject), {
        allCores: true,
        ...(place !== undefined && { databaseUrl: place.place }),
      })
      return await measure(server, bench.quick ? 2 : 6)
    },
  }))
