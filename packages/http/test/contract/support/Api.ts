import { randomUUID } from "node:crypto"
import { expect } from "vitest"
import { Answer } from "./Answer.ts"
import { ANSWER_LIMIT_MS, Connection, exchange, type WireRequest } from "./Connection.ts"
import { checkEveryAnswer } from "./everyAnswer.ts"
import { masked, normalized } from "./normalize.ts"
import type { Key, NewKey } from "@kiln/service-lab"
import { mountPrefix, publicUrl, type Service } from "./Service.ts"

/** `null` removes a default header; a list sends one line per value. */
export type Headers = Readonly<Record<string, string | ReadonlyArray<string> | null>>

/** A request, with what every well-behaved client sends filled in. */
export interface Call {
  readonly method?: string
  /** Path and query; a signed URL as it was handed out will do as well. */
  readonly path: string
  /** `null` sends no key; the default is the row's test key with both scopes. */
  readonly key?: Key | null
  /** Lower-case names. */
  readonly headers?: Headers
  readonly json?: unknown
  /** Sent as it is, in place of `json`. */
  readonly body?: string | Uint8Array
  readonly limitMs?: number
}

export interface PolledJob {
  readonly answer: Answer
  readonly statuses: ReadonlyArray<string>
}

const audioPaths = ["/v1/audio/transcriptions", "/v1/audio/speech", "/v1/voice/turns"] as const
export const imagePath = "/v1/images/generations"
const creatingPaths: ReadonlySet<string> = new Set([...audioPaths, imagePath])

/** Every error code any row of this file has met. */
export const seenCodes = new Set<string>()

const repeat = async (ask: () => Promise<Answer>, awaited: (answer: Answer) => boolean, limitMs: number) => {
  const deadline = Date.now() + limitMs
  while (true) {
    const answer = await ask()
    if (awaited(answer)) return answer
    if (Date.now() > deadline) throw new Error(`not within ${limitMs} ms; last: ${answer.status} ${answer.text}`)
    await pause(20)
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const rankOf = (status: string): number => ["queued", "processing"].indexOf(status) + 1 || 3

/** The path and query of a signed URL. */
export const targetOf = (url: string): string => {
  if (!url.startsWith(`${publicUrl}/`)) throw new Error(`not below the public URL: ${url}`)
  return url.slice(publicUrl.length)
}

/** One row's view of one service: sends requests, checks what holds of every answer, and writes down what came. */
export class Api {
  readonly service: Service
  /** What this store answered; the other one must have answered the same. */
  readonly transcript: Array<unknown> = []
  #key: Promise<Key> | undefined
  #requests = 0

  constructor(service: Service) {
    this.service = service
  }

  /** The row's key, in a separate project. */
  key(): Promise<Key> {
    this.#key ??= this.service.createKey()
    return this.#key
  }

  newKey(key?: NewKey): Promise<Key> {
    return this.service.createKey(key)
  }

  /** Sends a request and writes the answer down. */
  async send(call: Call): Promise<Answer> {
    const answer = await this.quietly(call)
    this.#record(call, answer)
    return answer
  }

  /** The same without writing it down: for what two stores need not answer alike, such as who wins a race. */
  quietly(call: Call): Promise<Answer> {
    return this.#ask(call, this.#port())
  }

  /** The answer to a request that is sent as it is. */
  async exchange(request: WireRequest): Promise<Answer> {
    return new Answer(await exchange(this.#port(), request))
  }

  /** Writes down something both stores must agree on. */
  note(label: string, value: unknown): void {
    this.transcript.push([label, masked(JSON.stringify(value))])
  }

  check(answer: Answer, method: string, options: { readonly fromParser?: boolean } = {}): Answer {
    const { serverErrors = false, tamper } = this.service.settings
    const received = tamper === undefined ? answer : tamper(answer)
    checkEveryAnswer(received, method, { serverErrors, ...options })
    if (received.code !== undefined) seenCodes.add(received.code)
    return received
  }

  connect(): Promise<Connection> {
    return Connection.open(this.#port())
  }

  /** Reads the response on a connection that the row controls. */
  async answerOn(connection: Connection, method: string, limitMs = ANSWER_LIMIT_MS): Promise<Answer> {
    return this.check(new Answer(await connection.read(method, limitMs)), method)
  }

  /** The bytes of a call, for rows that send them directly. */
  async request(call: Call): Promise<WireRequest> {
    const method = call.method ?? "GET"
    const content = call.body ?? (call.json === undefined ? undefined : JSON.stringify(call.json))
    const body = typeof content === "string" ? Buffer.from(content) : content
    const key = call.key === undefined ? await this.key() : call.key
    const target = call.path.startsWith(publicUrl) ? targetOf(call.path) : call.path
    const headers: Record<string, string | ReadonlyArray<string> | null> = {
      host: `127.0.0.1:${this.service.ports[0]}`,
    }
    if (key !== null) headers.authorization = `Bearer ${key.secret}`
    if (body !== undefined) headers["content-length"] = String(body.length)
    if (body !== undefined && method === "POST") headers["content-type"] = "application/json"
    if (method === "POST" && creatingPaths.has(target)) headers["idempotency-key"] = randomUUID()
    const lines = Object.entries({ ...headers, ...call.headers }).flatMap(([name, value]) =>
      (value === null ? [] : [value].flat()).map((one) => [name, one] as const),
    )
    return { method, target: this.#mounted(target), headers: lines, body }
  }

  post(path: string, json: unknown, call: Omit<Call, "path" | "json"> = {}): Promise<Answer> {
    return this.send({ method: "POST", path, json, ...call })
  }

  get(path: string, call: Omit<Call, "path"> = {}): Promise<Answer> {
    return this.send({ method: "GET", path, ...call })
  }

  delete(path: string, call: Omit<Call, "path"> = {}): Promise<Answer> {
    return this.send({ method: "DELETE", path, ...call })
  }

  /** Announces a file: the decoded upload. */
  async upload(format = "wav", declaredSeconds = 1, key?: Key) {
    const json = { format, declared_seconds: declaredSeconds }
    const answer = await this.post("/v1/audio/uploads", json, key === undefined ? {} : { key })
    expect(answer.status, answer.text).toBe(201)
    return answer.json as {
      readonly id: `upl_${string}`
      readonly upload_url: string
      readonly expires_at: string
      readonly max_bytes: number
    }
  }

  /** Sends a file as specified, without a key. */
  put(url: string, body: Uint8Array, headers: Headers = {}): Promise<Answer> {
    return this.send(putCall(url, body, headers))
  }

  /** The id of an upload whose file has arrived. */
  async uploaded(
    file: Uint8Array,
    options: { readonly format?: string; readonly declared?: number; readonly key?: Key } = {},
  ) {
    const format = options.format ?? "wav"
    const upload = await this.upload(format, options.declared ?? 1, options.key)
    const answer = await this.put(upload.upload_url, file, { "content-type": `audio/${format}` })
    expect(answer.status, answer.text).toBe(204)
    return upload.id
  }

  /** Creates a job that must be accepted: its id and the path it is polled at. */
  async job(path: string, json: unknown, call: Omit<Call, "path" | "json"> = {}) {
    const answer = await this.post(path, json, call)
    expect(answer.status, answer.text).toBe(202)
    const id: string = answer.json.id
    return { id, path: path === imagePath ? `/v1/images/jobs/${id}` : `/v1/jobs/${id}`, answer }
  }

  /** Polls until the job has this status, at least; its status may only go forward on the way. */
  async polled(path: string, wanted: "processing" | "finished", key?: Key): Promise<PolledJob> {
    const statuses: Array<string> = []
    const deadline = Date.now() + ANSWER_LIMIT_MS
    while (true) {
      const call = { path, ...(key === undefined ? {} : { key }) }
      const answer = await this.quietly(call)
      expect(answer.status, answer.text).toBe(200)
      const { status } = answer.json
      const last = statuses.at(-1)
      if (last !== status) statuses.push(status)
      if (last !== undefined) expect(rankOf(status), `${last} became ${status}`).toBeGreaterThanOrEqual(rankOf(last))
      expect(answer.header("retry-after")).toBe(rankOf(status) < 3 ? "2" : undefined)
      if (rankOf(status) >= (wanted === "finished" ? 3 : 2)) {
        this.#record(call, answer)
        return { answer, statuses }
      }
      if (Date.now() > deadline) throw new Error(`still ${status} after ${ANSWER_LIMIT_MS} ms`)
      await pause(10)
    }
  }

  /** The poll of a job that has ended, decoded. */
  async finished(path: string, key?: Key) {
    return (await this.polled(path, "finished", key)).answer.json
  }

  /** Repeats a request, without writing it down, until its answer is the awaited one. */
  until(call: Call, awaited: (answer: Answer) => boolean, limitMs = ANSWER_LIMIT_MS): Promise<Answer> {
    return repeat(() => this.quietly(call), awaited, limitMs)
  }

  /** The same at every part of the service, one after the other; the last one's answer. */
  async untilEverywhere(call: Call, awaited: (answer: Answer) => boolean, limitMs = ANSWER_LIMIT_MS): Promise<Answer> {
    let answer: Answer | undefined
    for (const port of this.service.ports) answer = await repeat(() => this.#ask(call, port), awaited, limitMs)
    if (answer === undefined) throw new Error("there is nobody to ask")
    return answer
  }

  async #ask(call: Call, port: number): Promise<Answer> {
    const request = await this.request(call)
    return this.check(new Answer(await exchange(port, request, call.limitMs)), request.method)
  }

  /** Where there are two, every request goes to the other one than the request before: nothing may depend on who answers. */
  #port(): number {
    const { ports } = this.service
    return ports[this.#requests++ % ports.length] ?? ports[0]
  }

  /** Where a target is in the server that the service lives in. */
  #mounted(target: string): string {
    const { mount } = this.service.settings
    return mount === undefined || target.startsWith(mountPrefix) ? target : mountPrefix + target
  }

  #record(call: Call, answer: Answer): void {
    this.transcript.push([`${call.method ?? "GET"} ${masked(call.path.replace(publicUrl, ""))}`, normalized(answer)])
  }
}

/** A PUT as the specification has it. */
export const putCall = (url: string, body: Uint8Array, headers: Headers = {}): Call => ({
  method: "PUT",
  path: url,
  key: null,
  body,
  headers: { "content-type": "audio/wav", ...headers },
})
