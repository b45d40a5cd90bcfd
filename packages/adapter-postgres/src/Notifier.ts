/** Milliseconds between two notifications of one process at least: NOTIFY takes a lock on the whole database when it commits. */
const coalesceMs = 20

/** Sends at most one notification at a time, and none sooner than the pause after the one before. */
export class Notifier {
  readonly #send: () => Promise<void>
  #wanted = false
  #sending: Promise<void> | undefined
  #stopped = false

  constructor(send: () => Promise<void>) {
    this.#send = send
  }

  notify(): void {
    if (this.#stopped) return
    this.#wanted = true
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
  }

  async #sendAll(): Promise<void> {
    while (this.#wanted) {
      this.#wanted = false
      await this.#send()
      if (!this.#stopped) await new Promise((resolve) => setTimeout(resolve, coalesceMs))
    }
  }

  /** What was asked for before is still sent: a process that stops gives its jobs back as its last act, and says so. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#sending
  }
}
