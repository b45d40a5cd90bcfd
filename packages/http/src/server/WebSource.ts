import { Effect } from "effect"
import type { BodyEnd, RequestSource } from "./RequestSource.ts"

type Read = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>

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
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  /** Asked for and not handed over yet: an interrupted reader must not lose a piece. */
  #pending: Promise<Read> | undefined
  #ended = false

  constructor(request: Request, remoteAddress: string | undefined) {
    this.request = request
    this.remoteAddress = remoteAddress
    this.isBodyTaken = request.bodyUsed || request.body?.locked === true
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
    return this.request.body !== null && !this.#ended && !this.isBodyTaken
  }

  /** A `Request` hides who waits; reading its body is what makes its server ask for it. */
  sendContinue(): void {}

  readBody(take: (piece: Uint8Array) => boolean): Effect.Effect<BodyEnd> {
    return Effect.suspend((): Effect.Effect<BodyEnd> => {
      if (this.#ended || this.request.body === null) return Effect.succeed("complete")
      return Effect.matchEffect(
        Effect.tryPromise(() => this.#read()),
        {
          onFailure: () => {
            this.#ended = true
            return Effect.succeed("broken" as const)
          },
          onSuccess: ({ done, value }) => {
            this.#pending = undefined
            this.#ended = done
            if (done) return Effect.succeed("complete" as const)
            return take(value) ? this.readBody(take) : Effect.succeed("stopped" as const)
          },
        },
      )
    })
  }

  #read(): Promise<Read> {
    this.#reader ??= this.request.body?.getReader()
    this.#pending ??= this.#reader?.read() ?? Promise.resolve({ done: true, value: undefined })
    return this.#pending
  }
}
