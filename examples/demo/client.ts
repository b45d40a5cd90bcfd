import { setTimeout as sleep } from "node:timers/promises"
import type { Service } from "./service.ts"

/** A job as polling returns it. */
export interface Job {
  readonly id: string
  readonly status: "queued" | "processing" | "done" | "failed"
  readonly error_code?: string | null
  readonly output?: {
    readonly transcript?: string
    readonly text?: string
    readonly audio_url?: string
    readonly image_url?: string
  }
}

const firstPollMs = 200
const usualPollSeconds = 2

const checked = async (response: Response, what: string): Promise<Response> => {
  if (response.ok) return response
  throw new Error(`${what}: ${response.status} ${(await response.text()).slice(0, 500)}`)
}

/** The requests that the demo sends. */
export class Client {
  readonly #service: Service
  readonly #signal: AbortSignal

  constructor(service: Service, signal: AbortSignal) {
    this.#service = service
    this.#signal = signal
  }

  /** Sends a WAV file and returns the id of its upload. */
  async upload(wav: Uint8Array, seconds: number): Promise<string> {
    const created = await this.#post("/v1/audio/uploads", { format: "wav", declared_seconds: seconds })
    const { id, method, upload_url } = await created.json()
    const sent = { method, body: Buffer.from(wav), headers: { "Content-Type": "audio/wav" }, signal: this.#signal }
    await checked(await fetch(upload_url, sent), "sending the file")
    return id
  }

  /** Creates a job and returns its id. */
  async create(path: string, body: object): Promise<string> {
    const response = await this.#post(path, body, { "Idempotency-Key": crypto.randomUUID() })
    return (await response.json()).id
  }

  /** Polls a job until it is finished: soon at first, then at the service's `Retry-After`. */
  async finish(path: string, onStatus: (status: Job["status"]) => void): Promise<Job> {
    let pauseMs = firstPollMs
    while (true) {
      await sleep(pauseMs, undefined, { signal: this.#signal })
      const headers = { Authorization: `Bearer ${this.#service.key}` }
      const response = await checked(
        await fetch(this.#service.url + path, { headers, signal: this.#signal }),
        `polling ${path}`,
      )
      const job: Job = await response.json()
      onStatus(job.status)
      if (job.status === "done") return job
      if (job.status === "failed") throw new Error(`${job.id} failed: ${job.error_code}`)
      pauseMs = 1000 * Number(response.headers.get("retry-after") ?? usualPollSeconds)
    }
  }

  /** Downloads a temporary URL, which needs no key. */
  async download(url: string | undefined): Promise<Uint8Array> {
    if (url === undefined) throw new Error("the job is done, but has no file")
    const response = await checked(await fetch(url, { signal: this.#signal }), "downloading the file")
    return new Uint8Array(await response.arrayBuffer())
  }

  async #post(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    const response = await fetch(this.#service.url + path, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.#service.key}`, "Content-Type": "application/json", ...headers },
      body: JSON.stringify(body),
      signal: this.#signal,
    })
    return checked(response, `POST ${path}`)
  }
}
