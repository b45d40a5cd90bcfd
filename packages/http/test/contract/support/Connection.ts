import { connect, type Socket } from "node:net"
import { ResponseReader, type WireResponse } from "./ResponseReader.ts"

/** How long any answer may take; a server that hangs is a failure, not a slow test. */
export const ANSWER_LIMIT_MS = 60_000

/** The connection ended without a whole answer. */
class NoAnswer extends Error {}

/** A request exactly as it is sent. */
export interface WireRequest {
  readonly method: string
  /** The request target, byte for byte. */
  readonly target: string
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body?: Uint8Array | undefined
}

/** The bytes of a request; header text is latin1, so that any byte can be written. */
export const requestBytes = (request: WireRequest): Buffer => {
  const lines = request.headers.map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `${request.method} ${request.target} HTTP/1.1\r\n${lines.join("")}\r\n`
  return Buffer.concat([Buffer.from(head, "latin1"), request.body ?? new Uint8Array(0)])
}

/** One chunk of a chunked body; an empty one ends it. */
export const chunk = (data: Uint8Array | string): Buffer => {
  const bytes = Buffer.from(data)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")])
}

/** A TCP connection on which every byte is ours: no pooling, no normalization, no second try. */
export class Connection {
  readonly #socket: Socket
  readonly #reader = new ResponseReader()
  #closed = false
  #wake: () => void = () => undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on("data", (data: Buffer) => {
      this.#reader.push(data)
      this.#wake()
    })
    const ended = () => {
      this.#closed = true
      this.#reader.end()
      this.#wake()
    }
    // A reset during a write is not a failure yet: the response may have arrived already.
    socket.on("error", ended)
    socket.on("end", ended)
    socket.on("close", ended)
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
      socket.once("error", reject)
      socket.once("connect", () => resolve(new Connection(socket)))
    })
  }

  /** Whether the server has ended the connection. */
  get closed(): boolean {
    return this.#closed
  }

  /** Bytes the server has not taken yet. */
  get backlog(): number {
    return this.#socket.writableLength
  }

  send(data: Uint8Array | string): this {
    if (!this.#socket.destroyed) this.#socket.write(data)
    return this
  }

  /** Ends the sending side and keeps reading. */
  finish(): this {
    this.#socket.end()
    return this
  }

  /** Cuts the connection, answer or not. */
  destroy(): void {
    this.#socket.destroy()
  }

  /** The next answer; fails with `NoAnswer` where the connection ends, or nothing comes in time. */
  async read(method: string, limitMs = ANSWER_LIMIT_MS): Promise<WireResponse> {
    const deadline = Date.now() + limitMs
    while (true) {
      const answer = this.#reader.next(method)
      if (answer !== undefined) return answer
      if (this.#closed) throw new NoAnswer(`closed without a whole answer: ${JSON.stringify(this.#reader.rest)}`)
      if (!(await this.#arrival(deadline))) throw new NoAnswer(`no answer within ${limitMs} ms`)
    }
  }

  /** Every answer until the server closes. Fails where it keeps the connection open longer than `limitMs`. */
  async readToEnd(limitMs = ANSWER_LIMIT_MS): Promise<ReadonlyArray<WireResponse>> {
    const deadline = Date.now() + limitMs
    while (!this.#closed)
      if (!(await this.#arrival(deadline))) throw new NoAnswer(`still open after ${limitMs} ms: ${this.#reader.rest}`)
    const answers: Array<WireResponse> = []
    for (let next = this.#reader.next("GET"); next !== undefined; next = this.#reader.next("GET")) answers.push(next)
    if (this.#reader.rest !== "") throw new Error(`not a response: ${JSON.stringify(this.#reader.rest)}`)
    return answers
  }

  /** Waits until nothing has come for a while, or the server has closed. */
  async quiet(ms: number): Promise<void> {
    while (!this.#closed && (await this.#arrival(Date.now() + ms)));
  }

  /** Whether something came before the deadline. */
  #arrival(deadline: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), deadline - Date.now())
      this.#wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })
  }
}

/** Sends one request on a new connection and reads its response. */
export const exchange = async (port: number, request: WireRequest, limitMs?: number): Promise<WireResponse> => {
  const connection = await Connection.open(port)
  try {
    return await connection.send(requestBytes(request)).read(request.method, limitMs)
  } finally {
    connection.destroy()
  }
}
