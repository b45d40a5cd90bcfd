import * as Effect from "effect/Effect"
import type { PieceBudget } from "./PieceBudget.ts"
import type { BodyEnd, ReadOptions } from "./RequestSource.ts"

/** Bytes buffered before the sender is paused, unless a reader waits for more. */
const capacityBytes = 65_536
/** Pieces of at least this many bytes are passed on unchanged; smaller ones are merged. */
const passedOnBytes = 4_096
const firstBufferBytes = 512
const largestBufferBytes = 16_384
/** Pieces below this many bytes count as small; and the number of small pieces per body that are free. */
const smallBytes = 256
const freePieces = 64
/** Milliseconds a reader waits for larger pieces. */
const gatherMs = 25

/** Flow control of a sender. `stop` may be called repeatedly. */
export interface Valve {
  readonly stop: () => void
  readonly go: () => void
  /** Ends the connection, because its sender continues although the body is no longer read. */
  readonly cut: () => void
  /** Runs a function once the received pieces have been pushed. */
  readonly defer: (run: () => void) => void
}

/**
 * Merges the pieces of one body into buffers of useful size, so that its cost in memory and steps depends on its length, not
 * on the number of pieces.
 */
export class BodyGatherer {
  readonly #valve: Valve
  readonly #budget: PieceBudget
  readonly #whole: Array<Uint8Array> = []
  #buffer: Uint8Array = new Uint8Array(0)
  #buffered = 0
  #bytes = 0
  #capacity = capacityBytes
  #small = 0
  #isFull = false
  #leaveLine: (() => void) | undefined
  #end: "complete" | "broken" | undefined
  #wake: (() => void) | undefined
  #onTrickle: (() => void) | undefined

  constructor(budget: PieceBudget, valve: Valve) {
    this.#budget = budget
    this.#valve = valve
  }

  /** True when the body has ended and everything was read. */
  get isDrained(): boolean {
    return this.#end === "broken" || (this.#end === "complete" && this.#bytes === 0)
  }

  /** True while the sender waits for its turn because it sends tiny pieces. */
  get isTrickling(): boolean {
    return this.#leaveLine !== undefined
  }

  /** True while the sender is paused. */
  get isStopped(): boolean {
    return this.#isFull || this.isTrickling
  }

  push(piece: Uint8Array): void {
    if (this.#end !== undefined) {
      // Writing the response discards part of the rest, which must not cost more than its bytes either.
      if (this.#isOverBudget(piece)) this.#valve.cut()
      return
    }
    if (piece.length >= passedOnBytes) {
      this.#sealBuffer()
      this.#whole.push(piece)
    } else this.#copy(piece)
    this.#bytes += piece.length
    if (this.#bytes >= this.#capacity) this.#isFull = true
    if (this.#isOverBudget(piece))
      this.#leaveLine ??= this.#budget.wait(() => {
        this.#leaveLine = undefined
        this.#goOn()
      })
    if (this.isStopped) this.#valve.stop()
    if (this.isTrickling) this.#onTrickle?.()
    this.#wake?.()
  }

  /** Marks the end of the body: complete, or broken by a disconnect. Only the first call counts. */
  finish(end: "complete" | "broken"): void {
    if (this.#end !== undefined) return
    this.#end = end
    if (end === "broken") this.#forget()
    this.#letGo()
    this.#wake?.()
  }

  /** Ends reading and drops buffered bytes. A sender of tiny pieces is disconnected; any other is resumed. */
  abandon(): void {
    this.#end ??= "broken"
    this.#forget()
    if (this.isTrickling) this.#valve.cut()
    this.#letGo()
  }

  /**
   * Passes buffered and arriving pieces to `take` until the body ends or `take` returns false. Waits up to 25 ms for at least
   * `minBytes`, of which up to that many are buffered from then on. An interrupted read loses nothing.
   */
  read(
    take: (piece: Uint8Array) => boolean,
    { minBytes = 1, once = false, stopsAtTrickle = false }: ReadOptions = {},
  ): Effect.Effect<BodyEnd> {
    return Effect.callback((resume) => {
      this.#grow(minBytes)
      let timer: NodeJS.Timeout | undefined
      let isDue = false
      let isScheduled = false
      const stop = () => {
        clearTimeout(timer)
        this.#wake = undefined
        this.#onTrickle = undefined
      }
      const finish = (end: BodyEnd) => {
        stop()
        resume(Effect.succeed(end))
      }
      const isReady = () => this.#bytes > 0 && (isDue || this.#end !== undefined || this.#bytes >= minBytes)
      const handOver = () => {
        isScheduled = false
        if (this.#wake !== schedule) return
        if (isReady()) {
          while (this.#bytes > 0) if (!take(this.#shift())) return finish("stopped")
          if (once) return finish("stopped")
        }
        if (this.#end !== undefined) return finish(this.#end)
        isDue = false
        if (this.#bytes === 0) return
        timer ??= setTimeout(() => {
          timer = undefined
          isDue = true
          schedule()
        }, gatherMs)
      }
      const schedule = () => {
        if (isScheduled) return
        isScheduled = true
        this.#valve.defer(handOver)
      }
      this.#wake = schedule
      if (stopsAtTrickle) {
        if (this.isTrickling) return finish("stopped")
        this.#onTrickle = () => finish("stopped")
      }
      handOver()
      return Effect.sync(stop)
    })
  }

  #isOverBudget(piece: Uint8Array): boolean {
    return piece.length < smallBytes && ++this.#small > freePieces && !this.#budget.spend()
  }

  #copy(piece: Uint8Array): void {
    const needed = this.#buffered + piece.length
    if (needed > this.#buffer.length) {
      if (needed > largestBufferBytes) this.#sealBuffer()
      const size = Math.min(largestBufferBytes, Math.max(firstBufferBytes, 2 * (this.#buffered + piece.length)))
      const grown = new Uint8Array(size)
      grown.set(this.#buffer.subarray(0, this.#buffered))
      this.#buffer = grown
    }
    // The fast path for the most frequent pieces.
    if (piece.length === 1) this.#buffer[this.#buffered] = piece[0] ?? 0
    else this.#buffer.set(piece, this.#buffered)
    this.#buffered += piece.length
  }

  #sealBuffer(): void {
    if (this.#buffered > 0) this.#whole.push(this.#buffer.subarray(0, this.#buffered))
    this.#buffer = new Uint8Array(0)
    this.#buffered = 0
  }

  #shift(): Uint8Array {
    if (this.#whole.length === 0) this.#sealBuffer()
    const piece = this.#whole.shift() ?? new Uint8Array(0)
    this.#bytes -= piece.length
    if (this.#isFull && this.#bytes < this.#capacity / 2) {
      this.#isFull = false
      this.#goOn()
    }
    return piece
  }

  #forget(): void {
    this.#whole.length = 0
    this.#buffer = new Uint8Array(0)
    this.#buffered = 0
    this.#bytes = 0
  }

  #grow(capacity: number): void {
    if (capacity <= this.#capacity) return
    this.#capacity = capacity
    if (!this.#isFull || this.#bytes >= capacity) return
    this.#isFull = false
    this.#goOn()
  }

  #goOn(): void {
    if (!this.isStopped) this.#valve.go()
  }

  #letGo(): void {
    this.#isFull = false
    this.#leaveLine?.()
    this.#leaveLine = undefined
    this.#valve.go()
  }
}
