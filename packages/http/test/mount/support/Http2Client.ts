import { type ClientHttp2Session, type ClientHttp2Stream, connect, type IncomingHttpHeaders } from "node:http2"
import { text } from "node:stream/consumers"

export interface Http2Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** One session of HTTP/2: requests are streams of it. */
export class Http2Client implements AsyncDisposable {
  readonly session: ClientHttp2Session

  constructor(origin: string) {
    this.session = connect(origin, { rejectUnauthorized: false })
  }

  begin(method: string, path: string, headers: Readonly<Record<string, string>> = {}, ends = false): ClientHttp2Stream {
    return this.session.request({ ":method": method, ":path": path, ...headers }, { endStream: ends })
  }

  /** The answer to a stream that was begun. */
  async answerOf(stream: ClientHttp2Stream): Promise<Http2Answer> {
    const headers = await new Promise<IncomingHttpHeaders>((resolve, reject) => {
      stream.once("response", resolve).once("error", reject)
      stream.once("close", () => reject(new Error("closed without an answer")))
    })
    return { status: Number(headers[":status"]), headers, text: await text(stream.setEncoding("utf8")) }
  }

  async ask(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body?: string | Uint8Array,
  ): Promise<Http2Answer> {
    const stream = this.begin(method, path, headers, body === undefined)
    if (body !== undefined) stream.end(body)
    return this.answerOf(stream)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => this.session.close(resolve))
  }
}
