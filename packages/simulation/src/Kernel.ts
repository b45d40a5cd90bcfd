import type { Dice } from "./Dice.ts"

/** A scheduled participant. */
export interface Runnable {
  /** Runs all work that is due at this moment. */
  readonly turn: () => void
}

/** Something that happens at a time to come. */
export interface Timer {
  readonly at: number
  /** Among things of one instant, chance decides. */
  readonly order: number
  readonly task: () => void
  canceled: boolean
}

/** A promise that was broken, and when. The first one ends the run. */
export interface Violation {
  /** The name of the invariant, as in docs/invariants.md. */
  readonly invariant: string
  readonly detail: string
  /** Milliseconds of virtual time since the beginning. */
  readonly atMs: number
}

/** The beginning of virtual time in unix milliseconds: not 0, so that a forgotten time shows. */
const epochMs = 1_800_000_000_000

/** Turns within one instant: more is a loop that never lets time pass. */
const maxTurnsPerInstant = 100_000

/**
 * Schedules processes in virtual time. Turns of processes and timers run one after the other, and time advances only when no
 * process has work left. The dice order simultaneous events.
 */
export class Kernel {
  readonly dice: Dice
  /** Unix milliseconds, whole ones. The stores' time. */
  now = epochMs
  violation: Violation | undefined
  readonly #timers: Array<Timer> = []
  readonly #runnable: Array<Runnable> = []
  readonly #trace: ((line: string) => void) | undefined
  #turns = 0

  constructor(dice: Dice, trace: ((line: string) => void) | undefined) {
    this.dice = dice
    this.#trace = trace
  }

  get elapsedMs(): number {
    return this.now - epochMs
  }

  trace(line: () => string): void {
    this.#trace?.(`${String(this.elapsedMs).padStart(9)} ${line()}`)
  }

  /** Records a broken promise. Does not throw, because it is called within the code under test. */
  violate(invariant: string, detail: string): void {
    this.trace(() => `VIOLATED ${invariant}: ${detail}`)
    this.violation ??= { invariant, detail, atMs: this.elapsedMs }
  }

  after(delayMs: number, task: () => void): Timer {
    const timer: Timer = {
      at: this.now + Math.max(0, Math.ceil(delayMs)),
      order: this.dice.random.nextDoubleUnsafe(),
      task,
      canceled: false,
    }
    push(this.#timers, timer)
    return timer
  }

  /** Says that the process has something to do. */
  ready(process: Runnable): void {
    this.#runnable.push(process)
  }

  /** Runs until `done`, the end of time, or a violation; returns whether `done` was reached. */
  runUntil(done: () => boolean, atMostMs: number): boolean {
    const end = this.now + atMostMs
    while (this.violation === undefined) {
      if (done()) return true
      if (!this.#step(end)) return done()
    }
    return false
  }

  #step(end: number): boolean {
    const count = this.#runnable.length
    if (count > 0) {
      if (++this.#turns > maxTurnsPerInstant) {
        this.violate("progress", "work continues endlessly without time passing")
        return false
      }
      const [process] = this.#runnable.splice(count === 1 ? 0 : this.dice.between(0, count - 1), 1)
      process?.turn()
      return true
    }
    const next = this.#timers[0]
    if (next === undefined || next.at > end) {
      this.now = end
      return false
    }
    pop(this.#timers)
    if (next.canceled) return true
    if (next.at > this.now) this.#turns = 0
    this.now = Math.max(this.now, next.at)
    next.task()
    return true
  }
}

const before = (a: Timer, b: Timer): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)

/** A binary heap: the next timer is at its head. */
const push = (heap: Array<Timer>, timer: Timer): void => {
  let at = heap.length
  heap.push(timer)
  while (at > 0) {
    const parentAt = (at - 1) >> 1
    const parent = heap[parentAt] as Timer
    if (!before(timer, parent)) break
    heap[at] = parent
    at = parentAt
  }
  heap[at] = timer
}

const pop = (heap: Array<Timer>): void => {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let at = 0
  while (true) {
    let childAt = 2 * at + 1
    if (childAt >= heap.length) break
    if (childAt + 1 < heap.length && before(heap[childAt + 1] as Timer, heap[childAt] as Timer)) childAt += 1
    const child = heap[childAt] as Timer
    if (!before(child, last)) break
    heap[at] = child
    at = childAt
  }
  heap[at] = last
}
