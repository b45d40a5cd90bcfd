import { expect } from "vitest"
import { until } from "@kiln/service-lab"

/** A job as polling returns it. */
export interface PolledJob {
  readonly id: string
  readonly status: "queued" | "processing" | "done" | "failed"
  readonly output?: { readonly audio_url: string }
  readonly billing: { readonly status: string; readonly amount: string | null }
  readonly error_code: string | null
}

/** The few requests these tests make. */
export class Api {
  readonly #url: string
  readonly #headers: Readonly<Record<string, string>>

  constructor(url: string, key: string) {
    this.#url = url
    this.#headers = { authorization: `Bearer ${key}` }
  }

  speak(input: string, idempotencyKey: string = crypto.randomUUID()): Promise<Response> {
    return fetch(`${this.#url}/v1/audio/speech`, {
      method: "POST",
      headers: { ...this.#headers, "content-type": "application/json", "idempotency-key": idempotencyKey },
      body: JSON.stringify({ input }),
    })
  }

  /** Creates a speech job and returns its id. */
  async createSpeech(input: string): Promise<string> {
    const response = await this.speak(input)
    expect(response.status).toBe(202)
    return (await response.json()).id
  }

  async job(id: string): Promise<PolledJob> {
    const response = await fetch(`${this.#url}/v1/jobs/${id}`, { headers: this.#headers })
    expect(response.status).toBe(200)
    return response.json()
  }

  jobs(ids: ReadonlyArray<string>): Promise<ReadonlyArray<PolledJob>> {
    return Promise.all(ids.map((id) => this.job(id)))
  }

  /** The job once it is finished. */
  finished(id: string): Promise<PolledJob> {
    return until(async () => {
      const job = await this.job(id)
      return job.status === "done" || job.status === "failed" ? job : undefined
    })
  }
}
