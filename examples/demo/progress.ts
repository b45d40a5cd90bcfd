/** Shows each job's status and duration: one redrawn line per job on a terminal, otherwise a line per change. */
export class Progress {
  readonly #names: ReadonlyArray<string>
  readonly #lines = new Map<string, string>()
  readonly #statuses = new Map<string, string>()
  readonly #startedAt = performance.now()
  readonly #out: NodeJS.WriteStream
  #drawn = 0

  constructor(names: ReadonlyArray<string>, out: NodeJS.WriteStream) {
    this.#names = names
    this.#out = out
  }

  /** Reports a job's status. Repeating a status has no effect. */
  show(name: string, status: string): void {
    if (this.#statuses.get(name) === status) return
    this.#statuses.set(name, status)
    const seconds = ((performance.now() - this.#startedAt) / 1000).toFixed(1)
    const width = Math.max(...this.#names.map((other) => other.length))
    const line = `${name.padEnd(width)}  ${status.padEnd(10)}  ${seconds.padStart(4)} s`
    this.#lines.set(name, line)
    if (this.#out.isTTY) this.#redraw()
    else this.#out.write(`${line}\n`)
  }

  #redraw(): void {
    const lines = this.#names.flatMap((name) => this.#lines.get(name) ?? [])
    const up = this.#drawn > 0 ? `\u001b[${this.#drawn}A` : ""
    this.#out.write(up + lines.map((line) => `\u001b[2K${line}\n`).join(""))
    this.#drawn = lines.length
  }
}
