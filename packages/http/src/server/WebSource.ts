import { Effect } from "effect"
import { BodyGatherer } from "./BodyGatherer.ts"
import type { PieceBudget } from "./PieceBudget.ts"
import { type BodyEnd, nothingToRead, type ReadOptions, type RequestSource } from "./RequestSource.ts"

/**
 * A web-standard `Request`. Its headers are joined already, so that two lines of one name are one value with a comma and
 * a space in it, which is neither a bearer token nor an idempotency key: both are refused like two lines are.
 */
export class WebSource implements RequestSource {
  readonly request: Request
  readonly remoteAddress: string | undefined
  readonly isBodyTaken: boolean
  /** What serves the request has seen to that. */
  readonly hasOneHost = true
  readonly #body: BodyGatherer
  #isReading = false
  #readOn = () => {}

  constructor(request: Request, remoteAddress: string | undefined, budget: PieceBudget) {
    this.request = request
    this.remoteAddress = remoteAddress
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

  /** A `Request` hides who waits; reading its body is what makes its server ask for it. */
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

  /** Stops reading: the response is finished or its client has gone. */
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
