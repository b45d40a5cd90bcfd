import { expect } from "vitest"
import { until } from "@kiln/service-lab"

export interface PolledJob {
  readonly id: string
  readonly status: "queued" | "processing" | "done" | "failed"
  readonly output?: { readonly audio_url?: string; readonly transcript?: string; readonly text?: string }
  readonly billing?: { readonly status: string; readonly amount: string | null }
  readonly error_code?: string | null
}

export interface Upload {
  readonly id: string
  readonly upload_url: string
}

/** The requests these tests make of one process. */
export class Client {
  readonly url: string
  readonly #key: string

  constructor(url: string, key: string) {
    this.url = url
    this.#key = key
  }

  get(path: string, signal?: AbortSignal): Promise<Response> {
    return fetch(`${this.url}${path}`, { headers: { authorization: `Bearer ${this.#key}` }, signal: signal ?? null })
  }

  post(path: string, body: object, idempotencyKey: string = crypto.randomUUID()): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${this.#key}`,
        "content-type": "application/json",
        "idempotency-key": idempotencyKey,
      },
      body: JSON.stringify(body),
    })
  }

  erase(id: string): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#key}` }
    return fetch(`${this.url}/v1/jobs/${id}/data`, { method: "DELETE", headers })
  }

  /** Creates a job and returns its id. */
  async create(path: string, body: object): Promise<string> {
    const response = await this.post(path, body)
    const text = await response.text()
    expect(response.status, text).toBe(202)
    return (JSON.parse(text) as PolledJob).id
  }

  speak(input: string): Promise<string> {
    return this.create("/v1/audio/speech", { input })
  }

  async announce(): Promise<Upload> {
    const response = await this.post("/v1/audio/uploads", { format: "wav", declared_seconds: 1 })
    expect(response.status).toBe(201)
    return (await response.json()) as Upload
  }

  /** Sends a file to this process, whichever process signed the URL. */
  put(upload: Upload, body: BodyInit): Promise<Response> {
    const { pathname, search } = new URL(upload.upload_url)
    const headers = { "content-type": "audio/wav" }
    return fetch(`${this.url}${pathname}${search}`, { method: "PUT", headers, body, duplex: "half" } as RequestInit)
  }

  /** An upload that has arrived. */
  async upload(body: Uint8Array<ArrayBuffer>): Promise<string> {
    const upload = await this.announce()
    expect((await this.put(upload, body)).status).toBe(204)
    return upload.id
  }

  async job(id: string): Promise<PolledJob> {
    const response = await this.get(`/v1/jobs/${id}`)
    expect(response.status).toBe(200)
    return (await response.json()) as PolledJob
  }

  /** The job once it is finished. 503 asks for another try: a process that stood still may not hear its store in time. */
  finished(id: string): Promise<PolledJob> {
    return until(async () => {
      const response = await this.get(`/v1/jobs/${id}`)
      if (response.status === 503) return undefined
      expect(response.status).toBe(200)
      const job = (await response.json()) as PolledJob
      return job.status === "done" || job.status === "failed" ? job : undefined
    })
  }

  /** The audio of a job that is done, as its file's URL gives it. */
  async audio(id: string): Promise<Uint8Array> {
    const { output } = await this.job(id)
    const response = await fetch(output?.audio_url ?? "")
    expect(response.status).toBe(200)
    return response.bytes()
  }

  /** The response of `/readyz`; `undefined` if none arrives in time. */
  async readiness(limitMs = 5_000): Promise<number | undefined> {
    return this.get("/readyz", AbortSignal.timeout(limitMs)).then(
      ({ status }) => status,
      () => undefined,
    )
  }
}

/** PCM, 8 bits, mono, 8 kHz: a second whose samples are all `sample`. */
export const wav = (sample: number): Uint8Array<ArrayBuffer> => {
  const samples = 8_000
  const file = Buffer.alloc(44 + samples, sample)
  file.write("RIFF", 0)
  file.writeUInt32LE(36 + samples, 4)
  file.write("WAVEfmt ", 8)
  for (const [at, value] of [
    [16, 16],
    [24, 8_000],
    [28, 8_000],
    [40, samples],
  ] as const)
    file.writeUInt32LE(value, at)
  for (const [at, value] of [
    [20, 1],
    [22, 1],
    [32, 1],
    [34, 8],
  ] as const)
    file.writeUInt16LE(value, at)
  file.write("data", 36)
  return new Uint8Array(file)
}
