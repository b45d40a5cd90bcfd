import { join } from "node:path"
import { expect } from "vitest"
import { Api, type PolledJob } from "../../support/Api.ts"
import { type Listening, type KilnProcess, runJson, serve } from "@kiln/service-lab"

/** What `/readyz` answered. */
export interface Ready {
  readonly status: number
  readonly checks: Readonly<Record<string, "ok" | "failing">>
}

/** A real `kiln serve` on a data directory, and what its clients send. */
export class Service implements AsyncDisposable {
  readonly kiln: KilnProcess & { readonly listening: Listening }
  readonly api: Api
  readonly #key: string

  constructor(kiln: KilnProcess & { readonly listening: Listening }, key: string) {
    this.kiln = kiln
    this.#key = key
    this.api = new Api(kiln.listening.url, key)
  }

  get key(): string {
    return this.#key
  }

  get url(): string {
    return this.kiln.listening.url
  }

  request(method: string, path: string, body?: object, idempotencyKey?: string): Promise<Response> {
    return fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#key}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  }

  /** Announces a WAV file; answers with its id and where to put it. */
  async announce(seconds: number): Promise<{ readonly id: string; readonly upload_url: string }> {
    const response = await this.request("POST", "/v1/audio/uploads", { format: "wav", declared_seconds: seconds })
    expect(response.status).toBe(201)
    return response.json()
  }

  async ready(): Promise<Ready> {
    const response = await fetch(`${this.url}/readyz`)
    return { status: response.status, checks: (await response.json()).checks }
  }

  erase(id: string): Promise<Response> {
    return this.request("DELETE", `/v1/jobs/${id}/data`)
  }

  /** The bytes of a finished speech job. */
  async audio(job: PolledJob): Promise<Uint8Array> {
    const response = await fetch(job.output?.audio_url ?? "")
    expect(response.status).toBe(200)
    return response.bytes()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kiln[Symbol.asyncDispose]()
  }
}

export const put = (url: string, file: Uint8Array): Promise<Response> =>
  fetch(url, { method: "PUT", headers: { "content-type": "audio/wav" }, body: Buffer.from(file) })

/** Starts a service; `key` is that of an earlier one on the same directory. */
export const startService = async (
  directory: string,
  environment: Readonly<Record<string, string>> = {},
  key?: string,
): Promise<Service> => {
  const kiln = await serve({ KILN_DATA_DIR: directory, KILN_RATE_LIMITS: "off", KILN_PAGES: "off", ...environment })
  return new Service(kiln, key ?? kiln.listening.first_key?.key ?? "")
}

/** For `startService`: live speech that takes as long as its text says, in a slot: `wait:<ms>`, or that of a `speechGate`. */
export const slowSpeech = { KILN_CONFIG: join(import.meta.dirname, "../../fixtures/slowSpeech.config.ts") }

/** A live caller of a service with slow speech, in the project of its test key. */
export const liveCaller = async (
  service: Service,
  directory: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Api> => {
  const env = { KILN_DATA_DIR: directory, ...slowSpeech, ...more }
  const live = await runJson(
    ["key", "create", "--project", "default", "--mode", "live", "--scope", "audio.create"],
    env,
  )
  await runJson(["price", "set", "svc-audio", "--input-character", "0.001"], env)
  await runJson(["price", "activate", "svc-audio"], env)
  for (const name of ["ai", "audio"]) await runJson(["switch", "on", name], env)
  return new Api(service.url, live.key)
}

/** An error as every client sees it. */
export const expectUnavailable = async (response: Response): Promise<void> => {
  expect(response.status).toBe(503)
  expect(response.headers.get("retry-after")).toBe("5")
  expect(await response.json()).toMatchObject({ error: { type: "api_error", code: "service_unavailable" } })
}
