import { Socket } from "node:net"

/**
 * Ticks until a socket is paused. A request that is parsed, or a body that is pushed, makes Node resume the socket: in the first
 * tick after it reads on, and in the second one the socket is told. A pause before that would be undone.
 */
const ticks = 3

/** Reasons to leave a connection unread, counted by its socket. */
const reasons = new WeakMap<Socket, number>()

/**
 * One reason to stop reading from an HTTP/1 connection. While any reason holds, at most the bytes that were read already are
 * parsed; the rest stays with the client.
 */
export class ReadingHold {
  readonly #socket: Socket
  #isHeld = false
  #isPausing = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /**
   * Pauses the socket once the bytes at hand are parsed. Call it again for every event that shows the socket being read: Node
   * resumes a connection by itself after each request and each time a body's stream is read.
   */
  hold(): void {
    if (!this.#isHeld) {
      this.#isHeld = true
      reasons.set(this.#socket, (reasons.get(this.#socket) ?? 0) + 1)
    }
    if (this.#isPausing) return
    this.#isPausing = true
    this.#pauseIn(ticks)
  }

  #pauseIn(left: number): void {
    if (left > 0) return process.nextTick(() => this.#pauseIn(left - 1))
    this.#isPausing = false
    if (this.#isHeld && !this.#socket.destroyed) this.#socket.pause()
  }

  /** Reads on when no other reason is left. */
  release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    const left = (reasons.get(this.#socket) ?? 1) - 1
    reasons.set(this.#socket, left)
    if (left === 0 && !this.#socket.destroyed) this.#socket.resume()
  }
}

/** The socket of a request that may be paused; `undefined` for HTTP/2, whose streams share one, and for tests without a socket. */
export const ownSocket = (request: {
  readonly httpVersionMajor: number
  readonly socket: unknown
}): Socket | undefined =>
  request.httpVersionMajor === 1 && request.socket instanceof Socket ? request.socket : undefined
