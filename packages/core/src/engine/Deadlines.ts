import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"

/** A time, and the function to call when it is over. A caller can be its own deadline, so that waiting needs one object and not two. */
export interface Deadline {
  /** Milliseconds of the monotonic clock; set when the deadline is added. */
  at: number
  readonly pass: () => void
}

/**
 * Deadlines of many waits. Each costs an entry here, and one fiber, with one timer, waits for the next of them: a timeout of Effect would
 * cost every wait two fibers.
 */
export class Deadlines {
  readonly #deadlines = new Set<Deadline>()
  readonly #news = Latch.makeUnsafe(false)
  readonly #clock: Clock.Clock
  readonly #scope: Scope.Scope
  readonly #run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
  /** When the fiber wakes up; `-Infinity` while it is awake. */
  #wakesAt = -Infinity
  #isRunning = false

  /** @param run starts a fiber that uses `clock` */
  constructor(clock: Clock.Clock, scope: Scope.Scope, run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>) {
    this.#clock = clock
    this.#scope = scope
    this.#run = run
  }

  /**
   * Calls `deadline.pass` once, later: when the time is over, or the scope closes. It is not called after `withdraw` was.
   * @param ms milliseconds, at least 0
   */
  add(ms: number, deadline: Deadline): void {
    deadline.at = this.#now() + ms
    this.#deadlines.add(deadline)
    if (!this.#isRunning) this.#start()
    else if (deadline.at < this.#wakesAt) this.#news.openUnsafe()
  }

  /** Has no effect on a deadline that has passed or was withdrawn. */
  withdraw(deadline: Deadline): void {
    if (this.#deadlines.delete(deadline) && this.#deadlines.size === 0) this.#news.openUnsafe()
  }

  #now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  #start(): void {
    this.#isRunning = true
    const waiting = Effect.whileLoop({
      while: () => this.#deadlines.size > 0,
      body: () => this.#turn,
      step: () => {},
    })
    const ended = Effect.sync(() => {
      this.#isRunning = false
      // None is left unless the scope has closed.
      for (const deadline of this.#deadlines) this.#pass(deadline)
    })
    // Later, so that a caller has what it is given before its deadline passes.
    Fiber.runIn(this.#run(Effect.ensuring(Effect.andThen(Effect.yieldNow, waiting), ended)), this.#scope)
  }

  readonly #turn = Effect.suspend(() => {
    this.#news.closeUnsafe()
    this.#wakesAt = -Infinity
    const now = this.#now()
    let next = Infinity
    for (const deadline of this.#deadlines)
      if (deadline.at <= now) this.#pass(deadline)
      else next = Math.min(next, deadline.at)
    if (this.#deadlines.size === 0) return Effect.void
    this.#wakesAt = next
    // A timer that fires early would only be set again.
    return Effect.asVoid(Effect.timeoutOption(this.#news.await, Math.ceil(next - now)))
  })

  #pass(deadline: Deadline): void {
    this.#deadlines.delete(deadline)
    deadline.pass()
  }
}
