/** Maximum number of small pieces per window, for all bodies together: about a third of a core's time in Node's parser. */
const piecesPerWindow = 12_000
/** Length of a window in milliseconds. */
const windowMs = 50

/**
 * Limits the number of small body pieces per second. A body sent in one-byte chunks costs the parser a microsecond or two
 * per byte, so senders of such bodies queue for each other instead of blocking the event loop for all requests.
 */
export class PieceBudget {
  #left = piecesPerWindow
  #isRunning = false
  readonly #line = new Set<() => void>()

  /** Counts a piece. False when the budget is used up: the caller stops reading and calls `wait`. */
  spend(): boolean {
    this.#left--
    this.#run()
    return this.#left >= 0
  }

  /** Calls `go` when it is this caller's turn, one caller per window. Returns a function that leaves the queue. */
  wait(go: () => void): () => void {
    this.#line.add(go)
    this.#run()
    return () => void this.#line.delete(go)
  }

  /** The clock runs only while there is something to count. */
  #run(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    const timer = setInterval(() => {
      this.#refill()
      if (this.#left < piecesPerWindow || this.#line.size > 0) return
      clearInterval(timer)
      this.#isRunning = false
    }, windowMs)
    timer.unref()
  }

  #refill(): void {
    this.#left = Math.min(piecesPerWindow, this.#left + piecesPerWindow)
    const [next] = this.#line
    if (next === undefined || this.#left <= 0) return
    this.#line.delete(next)
    next()
  }
}
