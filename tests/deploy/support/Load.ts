import { once } from "node:events"
import { Agent as HttpAgent, type IncomingMessage, request as httpRequest, type RequestOptions } from "node:http"
import { Agent as HttpsAgent, request as httpsRequest } from "node:https"
import { setTimeout as sleep } from "node:timers/promises"
import { wav } from "@kiln/service-lab"

/** A service as its callers reach it. */
export interface Target {
  readonly url: string
  readonly key: string
  /** Certificate to trust. */
  readonly ca?: string
  /** Whether callers keep their connections; default true. */
  readonly keepAlive?: boolean
}

/** An announcement is followed by its upload. */
type Step = "create" | "repeat" | "poll" | "announce" | "download"
export type RequestKind = Step | "upload"

/** A request without the expected response. */
export interface Failure {
  readonly kind: RequestKind
  readonly what: string
}

interface Reply {
  readonly status: number
  readonly headers: IncomingMessage["headers"]
  readonly body: Buffer
}

/** The shares of the requests. */
const mix: ReadonlyArray<Step> = [
  "create",
  "poll",
  "download",
  "announce",
  "poll",
  "create",
  "download",
  "poll",
  "repeat",
]
const file = wav(25, 8_000)
const largeFile = wav(500, 16_000)
/** Each of so many uploads sends the large file. */
const largeEvery = 50
/** How many jobs are remembered for polls and downloads. */
const remembered = 50

/** Callers of a service, who send requests at a steady rate. */
export class Load implements AsyncDisposable {
  readonly failures: Array<Failure> = []
  /** Milliseconds. */
  readonly latencies: Array<number> = []
  readonly #target: Target
  readonly #agent: HttpAgent
  readonly #jobs: Array<{ readonly id: string; readonly input: string; readonly idempotencyKey: string }> = []
  readonly #files: Array<string> = []
  readonly #inFlight = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  #sent = 0
  #uploads = 0
  #sending: Promise<void> | undefined

  constructor(target: Target) {
    this.#target = target
    const options = { keepAlive: target.keepAlive ?? true, maxSockets: 128 }
    this.#agent = target.url.startsWith("https:")
      ? new HttpsAgent({ ...options, ca: target.ca })
      : new HttpAgent(options)
  }

  get sent(): number {
    return this.#sent
  }

  /** Creates a few jobs and waits for their files, so that every kind of request has something to ask for. */
  async prepare(): Promise<void> {
    for (let n = 0; n < 5; n++) await this.#send("create")
    while (this.#files.length < 5 && this.failures.length === 0) {
      await this.#send("poll")
      await sleep(20)
    }
    if (this.failures.length > 0) throw new Error(`before any restart: ${JSON.stringify(this.failures)}`)
    this.latencies.length = 0
    this.#sent = 0
  }

  /**
   * Sends requests until `finish`. A machine that is too busy for the rate gets fewer: at most `concurrent` wait for a response,
   * because a process that stops ends the connections of those that wait for 20 s.
   */
  begin(perSecond: number, concurrent: number): void {
    this.#sending = (async () => {
      const begun = performance.now()
      while (!this.#stopping.signal.aborted) {
        // As many as are due: a pause that took longer than asked for is made up for.
        const due = ((performance.now() - begun) * perSecond) / 1_000
        while (this.#sent < due && this.#inFlight.size < concurrent) this.#start()
        await sleep(2)
      }
    })()
  }

  /** Stops sending, and waits for the responses. */
  async finish(): Promise<void> {
    this.#stopping.abort()
    await this.#sending
    await Promise.all(this.#inFlight)
  }

  #start(): void {
    const sending = this.#send(mix[this.#sent % mix.length] ?? "poll").finally(() => this.#inFlight.delete(sending))
    this.#inFlight.add(sending)
  }

  async #send(kind: Step): Promise<void> {
    let current: RequestKind = kind
    try {
      await this.#ask[kind]((next) => (current = next))
    } catch (error) {
      this.failures.push({ kind: current, what: error instanceof Error ? error.message : String(error) })
    }
  }

  readonly #ask: Readonly<Record<Step, (enter: (kind: RequestKind) => void) => Promise<void>>> = {
    create: async () => {
      const job = { input: `request ${this.#sent}`, idempotencyKey: crypto.randomUUID() }
      const { id } = JSON.parse(String((await this.#post("/v1/audio/speech", job, 202)).body)) as {
        readonly id: string
      }
      this.#jobs.push({ id, ...job })
      if (this.#jobs.length > remembered) this.#jobs.shift()
    },
    repeat: async () => {
      const { id, ...job } = pick(this.#jobs)
      const { body } = await this.#post("/v1/audio/speech", job, 202)
      const repeated = JSON.parse(String(body)) as { readonly id: string }
      if (repeated.id !== id) throw new Error(`a repeated request created ${repeated.id} beside ${id}`)
    },
    poll: async () => {
      const { id } = pick(this.#jobs)
      const { body } = await this.#request({ method: "GET", path: `/v1/jobs/${id}`, headers: this.#keyHeader }, 200)
      const job = JSON.parse(String(body)) as { status: string; output?: { audio_url: string } }
      if (job.status === "failed") throw new Error(`job ${id} failed`)
      if (job.output === undefined) return
      this.#files.push(pathOf(job.output.audio_url))
      if (this.#files.length > remembered) this.#files.shift()
    },
    announce: async (enter) => {
      const path = "/v1/audio/uploads"
      const { body } = await this.#post(path, { format: "wav", declared_seconds: 25 }, 201)
      const { upload_url } = JSON.parse(String(body)) as { readonly upload_url: string }
      enter("upload")
      const content = ++this.#uploads % largeEvery === 0 ? largeFile : file
      const headers = { "content-type": "audio/wav", "content-length": content.length }
      await this.#request({ method: "PUT", path: pathOf(upload_url), headers }, 204, content)
    },
    download: async () => {
      const { body, headers } = await this.#request({ method: "GET", path: pick(this.#files) }, 200)
      if (body.length !== Number(headers["content-length"]))
        throw new Error(`${body.length} bytes of ${headers["content-length"]}`)
    },
  }

  get #keyHeader() {
    return { authorization: `Bearer ${this.#target.key}` }
  }

  #post(
    path: string,
    { idempotencyKey, ...fields }: Readonly<Record<string, unknown>> & { readonly idempotencyKey?: string },
    expected: number,
  ) {
    const headers = {
      ...this.#keyHeader,
      "content-type": "application/json",
      ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
    }
    return this.#request({ method: "POST", path, headers }, expected, Buffer.from(JSON.stringify(fields)))
  }

  async #request(options: RequestOptions, expected: number, content?: Buffer): Promise<Reply> {
    this.#sent++
    const begun = performance.now()
    const { hostname, port, protocol } = new URL(this.#target.url)
    const send = protocol === "https:" ? httpsRequest : httpRequest
    const sending = send({ ...options, hostname, port, agent: this.#agent, timeout: 100_000 })
    sending.on("timeout", () => sending.destroy(new Error("no response for 100 s")))
    sending.end(content)
    const [response] = (await once(sending, "response")) as [IncomingMessage]
    const pieces: Array<Buffer> = []
    for await (const piece of response) pieces.push(piece as Buffer)
    if (!response.complete) throw new Error("the response broke off")
    const reply = { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(pieces) }
    if (reply.status !== expected)
      throw new Error(`${options.method} answered ${reply.status}: ${String(reply.body).slice(0, 200)}`)
    this.latencies.push(performance.now() - begun)
    return reply
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.finish()
    this.#agent.destroy()
  }
}

const pick = <A>(from: ReadonlyArray<A>): A => {
  const picked = from[Math.floor(Math.random() * from.length)]
  if (picked === undefined) throw new Error("nothing to ask for yet")
  return picked
}

const pathOf = (url: string): string => url.slice(new URL(url).origin.length)

/** The value below which this share of the values lies. */
export const percentile = (values: ReadonlyArray<number>, share: number): number =>
  values.toSorted((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? NaN
