/** Minimum milliseconds between two notifications of a process: NOTIFY locks the whole database when it commits. */
const coalesceMs = 20

/** Sends one notification at a time, with a pause between two. */
export class Notifier {
  readonly #send: () => Promise<void>
  #sentAt = -Infinity
  #carriedAt = -Infinity
  #wanted = false
  #sending: Promise<void> | undefined
  #stopped = false

  constructor(send: () => Promise<void>) {
    this.#send = send
  }

  /** Sends a notification, now or after the pause; not if one was just carried by a transaction. */
  notify(): void {
    if (this.#stopped) return
    const isCarried = performance.now() - this.#carriedAt < coalesceMs
    this.#carriedAt = -Infinity
    if (isCarried) return
    this.#wanted = true
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
  }

  /**
   * Whether a transaction that is about to begin may carry a notification, which spares its receivers another commit. The pause
   * counts from here.
   */
  mayCarry(): boolean {
    const now = performance.now()
    if (this.#stopped || this.#sending !== undefined || now - this.#sentAt < coalesceMs) return false
    this.#sentAt = now
    return true
  }

  /** Must be called when such a transaction has committed, and before it is announced by `notify`, which then has nothing to send. */
  carried(): void {
    this.#carriedAt = performance.now()
  }

  /** Sends what was requested before: a process returns its jobs and announces them during shutdown. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#sending
  }

  async #sendAll(): Promise<void> {
    while (this.#wanted) {
      const pauseMs = this.#sentAt + coalesceMs - performance.now()
      if (pauseMs > 0 && !this.#stopped) await new Promise((resolve) => setTimeout(resolve, pauseMs))
      this.#wanted = false
      this.#sentAt = performance.now()
      await this.#send()
    }
  }
}
