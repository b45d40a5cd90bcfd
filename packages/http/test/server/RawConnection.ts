import { connect, type Socket } from "node:net"

export interface RawResponse {
  readonly status: number
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

const LIMIT_MS = 20_000

/** A connection on which every byte is the test's own. Interim responses (100) are counted, not returned. */
export class RawConnection implements Disposable {
  readonly socket: Socket
  interim = 0
  closed = false
  #received = Buffer.alloc(0)
  #wake = () => {}

  constructor(port: number) {
    this.socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
    this.socket.setNoDelay(true)
    const ended = () => {
      this.closed = true
      this.#wake()
    }
    this.socket.on("data", (data: Buffer) => {
      this.#received = Buffer.concat([this.#received, data])
      this.#wake()
    })
    this.socket.on("end", ended).on("close", ended).on("error", ended)
  }

  send(data: string | Uint8Array): this {
    this.socket.write(data)
    return this
  }

  /** The next final response, to a request with this method. */
  async read(method = "GET"): Promise<RawResponse> {
    for (;;) {
      const response = this.#take(method)
      if (response !== undefined) return response
      if (this.closed) throw new Error(`closed after ${JSON.stringify(this.#received.toString("latin1"))}`)
      await this.#arrival()
    }
  }

  async untilClosed(): Promise<void> {
    while (!this.closed) await this.#arrival()
  }

  async untilInterim(): Promise<void> {
    while (this.interim === 0) {
      const head = this.#received.indexOf("\r\n\r\n")
      if (head !== -1) this.#skipInterim(head)
      else await this.#arrival()
    }
  }

  /** Bytes received and not read yet. */
  get pending(): number {
    return this.#received.length
  }

  [Symbol.dispose](): void {
    this.socket.destroy()
  }

  #skipInterim(head: number): boolean {
    if (!this.#received.toString("latin1", 0, 12).startsWith("HTTP/1.1 1")) return false
    this.interim++
    this.#received = this.#received.subarray(head + 4)
    return true
  }

  #take(method: string): RawResponse | undefined {
    const head = this.#received.indexOf("\r\n\r\n")
    if (head === -1) return undefined
    if (this.#skipInterim(head)) return this.#take(method)
    const [statusLine = "", ...lines] = this.#received.toString("latin1", 0, head).split("\r\n")
    const headers = new Map(
      lines.map((line) => {
        const colon = line.indexOf(":")
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
      }),
    )
    const length = method === "HEAD" ? 0 : Number(headers.get("content-length") ?? 0)
    if (this.#received.length < head + 4 + length) return undefined
    const body = this.#received.toString("utf8", head + 4, head + 4 + length)
    this.#received = this.#received.subarray(head + 4 + length)
    return { status: Number(statusLine.split(" ")[1]), headers, body }
  }

  #arrival(): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`nothing came within ${LIMIT_MS} ms`)), LIMIT_MS)
      this.#wake = () => {
        clearTimeout(late)
        resolve()
      }
    })
  }
}

/** A request's head. */
export const head = (request: string, ...headers: ReadonlyArray<string>): string =>
  `${request} HTTP/1.1\r\nHost: test\r\n${headers.map((line) => `${line}\r\n`).join("")}\r\n`

export const codeOf = (response: RawResponse): string | undefined => JSON.parse(response.body).error?.code
