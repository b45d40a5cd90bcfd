import { createHash } from "node:crypto"
import type { IncomingMessage } from "node:http"
import type { OpenAiAnswers, OpenAiEndpoint, OpenAiRequests } from "../Endpoint.ts"

/** A request that came in whole. */
export interface Incoming {
  readonly headers: IncomingMessage["headers"]
  readonly path: string
  readonly body: Buffer
}

/** What an endpoint needs of the stand-in. */
export interface Surroundings {
  /** Of the call, 1-based: part of the ids in an answer. */
  readonly number: number
  /** Scheme, host and port. */
  readonly origin: string
  readonly models: ReadonlyArray<string>
}

/** An answer before it is sent. */
export interface WireAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The same with the file in it cut in half, where there is a file in JSON. */
  readonly cut?: () => Buffer
  /** The same with a base64 that is none. */
  readonly wrongBase64?: () => Buffer
}

/** One endpoint: how its requests are read, and what it answers. */
export interface Service<E extends OpenAiEndpoint> {
  /** Throws `RequestRefused`. */
  readonly read: (incoming: Incoming) => OpenAiRequests[E]
  readonly answer: (
    request: OpenAiRequests[E],
    value: OpenAiAnswers[E] | undefined,
    surroundings: Surroundings,
  ) => WireAnswer
}

export const json = (body: unknown): WireAnswer => ({
  status: 200,
  headers: { "content-type": "application/json" },
  body: Buffer.from(JSON.stringify(body)),
})

export const file = (data: Uint8Array, mediaType: string): WireAnswer => ({
  status: 200,
  headers: { "content-type": mediaType },
  body: Buffer.from(data),
})

/** 32 bytes that depend on every part and on where one ends and the next begins. */
export const seedOf = (...parts: ReadonlyArray<string>): Buffer =>
  createHash("sha256").update(JSON.stringify(parts)).digest()

/** Answers never depend on the time, so that equal requests have equal answers. */
export const CREATED_AT_SECONDS = 1_750_000_000
