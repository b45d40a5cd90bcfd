import { createHash } from "node:crypto"
import type { IncomingMessage } from "node:http"
import type { OpenAiAnswers, OpenAiEndpoint, OpenAiRequests } from "../Endpoint.ts"

/** A complete request. */
export interface Incoming {
  readonly headers: IncomingMessage["headers"]
  readonly path: string
  readonly body: Buffer
}

/** The part of the stand-in that an endpoint needs. */
export interface Surroundings {
  /** Number of the call, 1-based; part of the ids in an answer. */
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
  /** Returns the answer with a truncated file, for JSON that contains a file. */
  readonly cut?: () => Buffer
  /** Returns the answer with invalid base64. */
  readonly wrongBase64?: () => Buffer
}

/** One endpoint: parses its requests and produces its answers. */
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

/** Returns 32 bytes that depend on every part and on the boundaries between parts. */
export const seedOf = (...parts: ReadonlyArray<string>): Buffer =>
  createHash("sha256").update(JSON.stringify(parts)).digest()

/** A fixed time, so that equal requests get equal answers. */
export const CREATED_AT_SECONDS = 1_750_000_000
