import * as Effect from "effect/Effect"
import type * as Tracer from "effect/Tracer"
import { BodyGatherer } from "./BodyGatherer.ts"
import type { PieceBudget } from "./PieceBudget.ts"
import { type BodyEnd, nothingToRead, type ReadOptions, type RequestSource } from "./RequestSource.ts"

/**
 * A web-standard `Request`. Its headers are already joined: two lines of one name are one value with a comma and a space in
 * it. That is neither a valid bearer token nor a valid idempotency key, so repeated headers are rejected here too.
 */
export class WebSource implements RequestSource {
  readonly request: Request
  readonly remoteAddress: string | undefined
  readonly hostSpan: Tracer.AnySpan | undefined
  readonly isBodyTaken: boolean
  /** Enforced by the server. */
  readonly hasOneHost = true
  readonly hasArrived = false
  readonly #body: BodyGatherer
  #isReading = false
  #readOn = () => {}

  constructor(
    request: Request,
    remoteAddress: string | undefined,
    budget: PieceBudget,
    hostSpan: Tracer.AnySpan | undefined,
  ) {
    this.request = request
    this.remoteAddress = remoteAddress
    this.hostSpan = hostSpan
    this.isBodyTaken = request.bodyUsed || request.body?.locked === true
    this.#body = new BodyGatherer(budget, {
      stop: () => {},
      go: () => this.#readOn(),
      cut: () => {},
      defer: queueMicrotask,
    })
  }

  get method(): string {
    return this.request.method
  }

  get target(): string {
    return this.request.url
  }

  header(lowerCaseName: string): ReadonlyArray<string> | undefined {
    const value = this.request.headers.get(lowerCaseName)
    return value === null ? undefined : [value]
  }

  hasMoreBody(): boolean {
    return this.request.body !== null && !this.#body.isDrained && !this.isBodyTaken
  }

  /** No-op: reading the body of a `Request` makes its server send `100 Continue`. */
  sendContinue(): void {}

  readBody(take: (piece: Uint8Array) => boolean, options?: ReadOptions): Effect.Effect<BodyEnd> {
    const { body } = this.request
    if (body === null) return nothingToRead
    return Effect.suspend(() => {
      if (!this.#isReading) {
        this.#isReading = true
        void this.#gather(body.getReader())
      }
      return this.#body.read(take, options)
    })
  }

  /** Stops reading, because the response is finished or the client has disconnected. */
  abandon(): void {
    this.#body.abandon()
  }

  /** Never rejects. */
  async #gather(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    try {
      while (!this.#body.isDrained) {
        const { done, value } = await reader.read()
        if (done) return this.#body.finish("complete")
        this.#body.push(value)
        if (this.#body.isStopped) await new Promise<void>((resolve) => (this.#readOn = resolve))
      }
    } catch {
      this.#body.finish("broken")
    }
  }
}
