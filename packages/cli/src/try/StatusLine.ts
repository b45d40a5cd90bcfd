import type { ProcessIo } from "../ProcessIo.ts"

const clearLine = "\r\u001b[K"

/** Cuts a line to the width of a terminal, so that it never wraps: a wrapped line cannot be redrawn. */
export const fitted = (text: string, columns: number): string => {
  const characters = [...text]
  return characters.length <= columns ? text : `${characters.slice(0, Math.max(columns - 1, 0)).join("")}…`
}

/**
 * Reports the progress of a command on standard error: a line that is redrawn in place on a terminal, and otherwise one line for each
 * event. With `--json`, only a terminal gets it.
 */
export class StatusLine {
  readonly #io: ProcessIo
  readonly #isLive: boolean
  readonly #isQuiet: boolean
  #shown = ""

  constructor(io: ProcessIo, asJson: boolean) {
    this.#io = io
    this.#isLive = io.terminal?.error === true
    this.#isQuiet = asJson && !this.#isLive
  }

  /** True if a line can be redrawn. */
  get isLive(): boolean {
    return this.#isLive
  }

  /** Shows a state that passes. Without a terminal, it is not shown. */
  show(text: string): void {
    if (!this.#isLive) return
    const line = fitted(text, (this.#io.terminal?.columns ?? 80) - 1)
    if (line === this.#shown) return
    this.#shown = line
    this.#io.writeError(`${clearLine}${line}`)
  }

  /** Writes a line that stays. */
  say(text: string): void {
    this.clear()
    if (!this.#isQuiet) this.#io.writeError(`${text}\n`)
  }

  /** Removes the passing state. */
  clear(): void {
    if (this.#shown === "") return
    this.#shown = ""
    this.#io.writeError(clearLine)
  }
}

const barWidth = 24

/** `[############------------]  50 %`. */
export const bar = (part: number, whole: number, width: number = barWidth): string => {
  const share = whole === 0 ? 1 : Math.min(part / whole, 1)
  const full = Math.round(share * width)
  return `[${"#".repeat(full)}${"-".repeat(width - full)}] ${String(Math.floor(share * 100)).padStart(3)} %`
}
