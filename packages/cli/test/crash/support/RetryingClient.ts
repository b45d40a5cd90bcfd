import { until } from "@kiln/service-lab"
import { type Client, type PolledJob, type Upload, wav } from "./Client.ts"

export const wishKinds = ["speech", "image", "transcription", "voice turn"] as const

/** A job somebody wants: everything about it but when. */
export interface Wish {
  readonly kind: (typeof wishKinds)[number]
  readonly idempotencyKey: string
  readonly text: string
  /** Of the file it comes with, where it comes with one. */
  readonly sample: number
}

/** Milliseconds a request or a job may take, with every process being killed again and again. */
const patienceMs = 60_000

/**
 * A correct client: after any failure in transit or in the server, it repeats the request to any running process with the same
 * idempotency key.
 */
export class RetryingClient {
  readonly #clients: () => ReadonlyArray<Client>
  readonly #random: () => number

  constructor(clients: () => ReadonlyArray<Client>, random: () => number) {
    this.#clients = clients
    this.#random = random
  }

  /** Repeats until there is an answer that repeating would not change. */
  async #insist<A>(request: (client: Client) => Promise<Response>, read: (response: Response) => Promise<A>) {
    const { answer } = await until(async () => {
      const clients = this.#clients()
      const client = clients[Math.floor(this.#random() * clients.length)]
      if (client === undefined) return undefined
      try {
        const response = await request(client)
        return response.status >= 500 ? undefined : { answer: await read(response) }
      } catch {
        // It went away, before the answer or in the middle of it.
        return undefined
      }
    }, patienceMs)
    return answer
  }

  async #uploaded(sample: number): Promise<string> {
    const upload = await this.#insist(
      (client) => client.post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 }),
      async (response) => (await response.json()) as Upload,
    )
    const arrived = await until(async () => {
      const answer = await this.#insist(
        (client) => client.put(upload, wav(sample)),
        async (response) => (response.status === 204 ? "arrived" : response.text()),
      )
      // It had arrived, and only the answer was lost.
      if (answer === "arrived" || answer.includes("upload_already_completed")) return true
      // Begun too often: every one of them was killed.
      if (answer.includes("upload_expired")) return false
      if (answer.includes("upload_in_progress")) return undefined
      throw new Error(`a file was refused: ${answer}`)
    }, patienceMs)
    return arrived ? upload.id : this.#uploaded(sample)
  }

  async #request({ kind, sample, text }: Wish): Promise<readonly [path: string, body: object]> {
    switch (kind) {
      case "speech":
        return ["/v1/audio/speech", { input: text }]
      case "image":
        return ["/v1/images/generations", { prompt: text }]
      case "transcription":
        return ["/v1/audio/transcriptions", { upload_id: await this.#uploaded(sample) }]
      case "voice turn":
        return [
          "/v1/voice/turns",
          { upload_id: await this.#uploaded(sample), max_output_tokens: 9, instructions: text },
        ]
    }
  }

  /** Asks until it is accepted, and once more: the repeat must name the same job. Answers with every id that came back. */
  async create(wish: Wish): Promise<ReadonlyArray<string>> {
    const [path, body] = await this.#request(wish)
    const ids: Array<string> = []
    for (let round = 0; round < 2; round++) {
      const { said, status } = await this.#insist(
        (client) => client.post(path, body, wish.idempotencyKey),
        async (response) => ({ status: response.status, said: await response.text() }),
      )
      if (status !== 202) throw new Error(`${wish.kind} ${wish.idempotencyKey} was refused: ${said}`)
      ids.push((JSON.parse(said) as PolledJob).id)
    }
    return ids
  }

  async finished(wish: Wish, id: string): Promise<PolledJob> {
    const path = wish.kind === "image" ? `/v1/images/jobs/${id}` : `/v1/jobs/${id}`
    return until(async () => {
      const job = await this.#insist(
        (client) => client.get(path),
        async (response) => (await response.json()) as PolledJob,
      )
      if (job.id !== id) throw new Error(`${wish.idempotencyKey} is not found: ${JSON.stringify(job)}`)
      return job.status === "done" || job.status === "failed" ? job : undefined
    }, patienceMs)
  }
}
