import type { IncomingMessage, ServerResponse } from "node:http"
import { Effect } from "effect"
import { awaitsContinue, sendContinue } from "./expectContinue.ts"
import type { BodyEnd, RequestSource } from "./RequestSource.ts"

/** Express and its like take the path they are mounted under away from `url`, and leave the whole in `originalUrl`. */
const targetOf = (message: IncomingMessage): string =>
  "originalUrl" in message && typeof message.originalUrl === "string" ? message.originalUrl : (message.url ?? "")

/** A request of Node's own server. */
export class NodeSource implements RequestSource {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  readonly target: string
  readonly isBodyTaken: boolean

  constructor(message: IncomingMessage, response: ServerResponse) {
    this.message = message
    this.response = response
    this.target = targetOf(message)
    this.isBodyTaken = message.readableDidRead && hasBody(message)
  }

  get method(): string {
    return this.message.method ?? ""
  }

  get remoteAddress(): string | undefined {
    return this.message.socket.remoteAddress
  }

  get hasOneHost(): boolean {
    const hosts = this.header("host")?.length ?? 0
    return hosts === 1 || (hosts === 0 && this.message.httpVersion !== "1.1")
  }

  header(lowerCaseName: string): ReadonlyArray<string> | undefined {
    return this.message.headersDistinct[lowerCaseName]
  }

  hasMoreBody(): boolean {
    return hasBody(this.message) && !this.message.readableEnded && !awaitsContinue(this.message)
  }

  sendContinue(): void {
    sendContinue(this.message, this.response)
  }

  readBody(take: (piece: Uint8Array) => boolean): Effect.Effect<BodyEnd> {
    return Effect.callback((resume) => {
      const { message } = this
      if (message.readableEnded) return resume(Effect.succeed("complete"))
      if (message.destroyed) return resume(Effect.succeed("broken"))
      const onData = (piece: Buffer) => {
        if (!take(piece)) finish("stopped")
      }
      const onEnd = () => finish("complete")
      const onBroken = () => finish("broken")
      const stop = () => {
        message.pause()
        message.off("data", onData).off("end", onEnd).off("error", onBroken).off("close", onBroken)
      }
      const finish = (end: BodyEnd) => {
        stop()
        resume(Effect.succeed(end))
      }
      message.on("data", onData).on("end", onEnd).on("error", onBroken).on("close", onBroken)
      message.resume()
      return Effect.sync(stop)
    })
  }
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0
