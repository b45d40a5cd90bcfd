import { Socket } from "node:net"

/**
 * Number of ticks before a socket is paused. After parsing a request or pushing a body, Node resumes the socket: it schedules
 * that in the first tick and does it in the second. An earlier pause would be undone.
 */
const ticks = 3

/** Number of active holds by socket. */
const reasons = new WeakMap<Socket, number>()

/**
 * Holds the reading of an HTTP/1 connection. While any hold is active, only bytes that were already read are parsed; the
 * rest stays with the client.
 */
export class ReadingHold {
  readonly #socket: Socket
  #isHeld = false
  #isPausing = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /**
   * Pauses the socket once the received bytes are parsed. Call it again after every event that shows the socket being read,
   * because Node resumes a connection after each request and each read of a body.
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

  /** Releases the hold. Reading resumes when no other hold is active. */
  release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    const left = (reasons.get(this.#socket) ?? 1) - 1
    reasons.set(this.#socket, left)
    if (left === 0 && !this.#socket.destroyed) this.#socket.resume()
  }
}

/** Returns the socket of a request if it may be paused; `undefined` for HTTP/2, whose streams share one, and without a socket. */
export const ownSocket = (request: {
  readonly httpVersionMajor: number
  readonly socket: unknown
}): Socket | undefined =>
  request.httpVersionMajor === 1 && request.socket instanceof Socket ? request.socket : undefined
