import { expect } from "vitest"
import { until, wav } from "@kiln/service-lab"
import { Client, type Upload } from "../../crash/support/Client.ts"

export interface LineItem {
  readonly meter: string
  readonly quantity: number
  readonly unit_amount: string
  readonly amount: string
}

/** Everything a poll may say; an image's says less. */
export interface LivePoll {
  readonly id: string
  readonly status: "queued" | "processing" | "done" | "failed"
  readonly output?: Readonly<Record<string, string>>
  readonly billing?: {
    readonly status: string
    readonly currency: string
    readonly amount: string | null
    readonly line_items: ReadonlyArray<LineItem>
  }
  readonly warning_code?: string | null
  readonly error_code?: string | null
}

/** Length of each recording. */
export const recordingSeconds = 1

const kinds = {
  speech: "/v1/audio/speech",
  transcription: "/v1/audio/transcriptions",
  turn: "/v1/voice/turns",
  image: "/v1/images/generations",
} as const
export type LiveKind = keyof typeof kinds

/** A job, and where it is polled. */
export interface LiveJob {
  readonly id: string
  readonly path: string
}

/** What these tests ask of a server. A machine that is busy is given its time. */
export class LiveClient {
  readonly #client: Client

  constructor(url: string, key: string) {
    this.#client = new Client(url, key)
  }

  post(kind: LiveKind, body: object): Promise<Response> {
    return this.#client.post(kinds[kind], body)
  }

  async create(kind: LiveKind, body: object): Promise<LiveJob> {
    const id = await this.#client.create(kinds[kind], body)
    return { id, path: kind === "image" ? `/v1/images/jobs/${id}` : `/v1/jobs/${id}` }
  }

  /** A WAV of that length that has arrived, declared as what it is. */
  async uploaded(seconds: number, file = wav(seconds)): Promise<string> {
    const response = await this.#client.post("/v1/audio/uploads", { format: "wav", declared_seconds: seconds })
    expect(response.status).toBe(201)
    const upload = (await response.json()) as Upload
    expect((await this.#client.put(upload, new Uint8Array(file))).status).toBe(204)
    return upload.id
  }

  speak(input: string): Promise<LiveJob> {
    return this.create("speech", { input })
  }

  /** A job of any kind, with this text in it wherever it takes one. */
  async any(kind: LiveKind, text: string): Promise<LiveJob> {
    if (kind === "speech") return this.speak(text)
    if (kind === "image") return this.create("image", { prompt: text })
    const upload_id = await this.uploaded(recordingSeconds)
    if (kind === "transcription") return this.create("transcription", { upload_id })
    return this.create("turn", { upload_id, max_output_tokens: 20, instructions: text })
  }

  async poll({ path }: LiveJob): Promise<LivePoll> {
    const response = await this.#client.get(path)
    expect(response.status).toBe(200)
    return (await response.json()) as LivePoll
  }

  finished(job: LiveJob): Promise<LivePoll> {
    return until(async () => {
      const poll = await this.poll(job)
      return poll.status === "done" || poll.status === "failed" ? poll : undefined
    }, 60_000)
  }
}

/** A file behind a signed URL, and what it says it is. */
export const download = async (url: string | undefined) => {
  const response = await fetch(url ?? "")
  expect(response.status).toBe(200)
  return { type: response.headers.get("content-type"), bytes: Buffer.from(await response.arrayBuffer()) }
}
