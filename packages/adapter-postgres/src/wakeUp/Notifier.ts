/**
 * Bounds of the milliseconds between two notifications of a process. The commit of a NOTIFY locks out those of all other
 * processes until it is on disk, so a process pauses for twice as long as its last one took: the busier the server or the slower
 * its disk, the fewer notifications.
 */
const defaultShortestPauseMs = 1
export const longestPauseMs = 20

/**
 * Milliseconds after a pause for which an announcement waits for a transaction that carries it, before it takes a statement: for
 * one that is in progress, and the next one to begin.
 */
const carrierWithin = (tookMs: number): number => 2 + Math.min(longestPauseMs / 2, tookMs)

/** Sends one notification at a time, with a pause between two. */
export class Notifier {
  readonly #send: () => Promise<void>
  readonly #shortestPauseMs: number
  readonly #now: () => number
  #begunAt = -Infinity
  #nextAt = -Infinity
  #tookMs = 0
  #carriedAt = -Infinity
  /** Numbers of announcements: requested, covered by the last notification, and known to be covered. */
  #asked = 0
  #covered = 0
  #told = 0
  #waiting: Promise<void> | undefined
  #isSending = false
  #stopped = false

  /** `now` returns monotonic milliseconds. */
  constructor(
    send: () => Promise<void>,
    shortestPauseMs: number = defaultShortestPauseMs,
    now: () => number = () => performance.now(),
  ) {
    this.#send = send
    this.#shortestPauseMs = shortestPauseMs
    this.#now = now
  }

  /** Sends a notification, now or after the pause; not if one was just carried by a transaction, or is carried meanwhile. */
  notify(): void {
    if (this.#stopped) return
    const isCarried = this.#now() - this.#carriedAt < longestPauseMs
    this.#carriedAt = -Infinity
    if (isCarried) return
    this.#asked += 1
    this.#waiting ??= this.#sendAll().finally(() => {
      this.#waiting = undefined
    })
  }

  /**
   * Whether a transaction that is about to begin may carry a notification, which spares its receivers another commit. If it is
   * not known to have committed, the longest pause counts from here.
   */
  mayCarry(): boolean {
    if (this.#stopped || this.#isSending || this.#now() < this.#nextAt) return false
    this.#begin()
    return true
  }

  /** Must be called when such a transaction has committed, and before it is announced by `notify`, which then has nothing to send. */
  carried(): void {
    this.#end()
    this.#carriedAt = this.#now()
  }

  /** Sends what was requested before: a process returns its jobs and announces them during shutdown. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#waiting
  }

  /** Covers the announcements so far. Later ones may be about jobs that are not committed yet. */
  #begin(): void {
    this.#begunAt = this.#now()
    this.#nextAt = this.#begunAt + longestPauseMs
    this.#covered = this.#asked
  }

  #end(): void {
    const now = this.#now()
    this.#tookMs = now - this.#begunAt
    this.#nextAt = now + Math.min(longestPauseMs, Math.max(this.#shortestPauseMs, 2 * this.#tookMs))
    this.#told = this.#covered
  }

  async #sendAll(): Promise<void> {
    // Transactions that turn out to carry nothing must not put it off for longer.
    const latestAt = this.#now() + longestPauseMs
    while (this.#told < this.#asked) {
      const pauseMs = Math.min(this.#nextAt, latestAt) - this.#now()
      if (pauseMs > 0 && !this.#stopped) {
        const waitMs = pauseMs + carrierWithin(this.#tookMs)
        await new Promise((resolve) => setTimeout(resolve, waitMs))
      } else await this.#sendOne()
    }
  }

  async #sendOne(): Promise<void> {
    this.#isSending = true
    this.#begin()
    try {
      await this.#send()
    } finally {
      this.#isSending = false
      this.#end()
    }
  }
}
