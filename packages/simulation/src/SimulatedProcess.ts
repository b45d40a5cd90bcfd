import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import type { Kernel } from "./Kernel.ts"

const nanosPerMs = 1_000_000n
const nanosPerMicro = 1_000n

/**
 * A simulated process: the kernel schedules its work, which uses the process's clock. After a kill, none of it runs again, not
 * even a finalizer. While it is frozen, its messages wait.
 */
export class SimulatedProcess {
  readonly name: string
  /** The speed of its monotonic clock relative to the stores': 1 is equal. */
  readonly rate: number
  /** The error of its wall clock, in milliseconds. */
  clockOffsetMs: number
  /** `stopped`: it ended by itself after a clean shutdown. */
  state: "running" | "frozen" | "killed" | "stopped" = "running"
  /** When it last stood still, unix milliseconds; `-Infinity` when it never did. */
  lastFrozenAt = Number.NEGATIVE_INFINITY
  readonly clock: Clock.Clock
  readonly #kernel: Kernel
  readonly #context: Context.Context<never>
  readonly #onKilled = new Set<() => void>()
  #tasks: Array<{ readonly task: () => void; readonly priority: number }> = []
  #announced = false

  constructor(kernel: Kernel, name: string, clockOffsetMs = 0, rate = 1) {
    this.#kernel = kernel
    this.name = name
    this.rate = rate
    this.clockOffsetMs = clockOffsetMs
    this.clock = this.#makeClock()
    const dispatcher: Scheduler.SchedulerDispatcher = {
      scheduleTask: (task, priority) => this.#enqueue(task, priority),
      flush: () => {
        while (this.#tasks.length > 0) this.turn()
      },
    }
    this.#context = Context.make(Scheduler.Scheduler, {
      executionMode: "async",
      shouldYield: (fiber) => fiber.currentOpCount >= 2_048,
      makeDispatcher: () => dispatcher,
    }).pipe(
      Context.add(Clock.Clock, this.clock),
      Context.add(Random.Random, kernel.dice.random),
      Context.add(References.MinimumLogLevel, "None"),
    )
  }

  /** Runs an effect in this process. */
  run<A, E>(effect: Effect.Effect<A, E>): Fiber.Fiber<A, E> {
    return Effect.runFork(Effect.provideContext(effect, this.#context), {
      scheduler: Context.get(this.#context, Scheduler.Scheduler),
    })
  }

  /** Brings something to the process from outside: an answer, a timer that is due. */
  deliver(task: () => void): void {
    this.#enqueue(task, 0)
  }

  /** Runs all work that is due at this moment. */
  turn(): void {
    this.#announced = false
    if (this.state !== "running") return
    const tasks = this.#tasks
    this.#tasks = []
    if (tasks.some(({ priority }) => priority !== 0)) tasks.sort((a, b) => a.priority - b.priority)
    for (const { task } of tasks) task()
  }

  kill(): void {
    if (this.isOver) return
    this.#kernel.trace(() => `${this.name} is no more`)
    this.state = "killed"
    this.#tasks = []
    for (const notice of this.#onKilled) notice()
    this.#onKilled.clear()
  }

  /** It ended by itself. */
  exit(): void {
    this.kill()
    this.state = "stopped"
  }

  /** Calls `notice` if the process is killed. Returns a function that unsubscribes. */
  onKilled(notice: () => void): () => void {
    this.#onKilled.add(notice)
    return () => this.#onKilled.delete(notice)
  }

  /** Stands still, as by SIGSTOP or a blocked event loop. */
  freeze(durationMs: number): void {
    if (this.state !== "running") return
    this.#kernel.trace(() => `${this.name} stands still for ${durationMs} ms`)
    this.state = "frozen"
    this.lastFrozenAt = this.#kernel.now
    this.#kernel.after(durationMs, () => this.thaw())
  }

  /** Goes on, if it stood still. */
  thaw(): void {
    if (this.state !== "frozen") return
    this.#kernel.trace(() => `${this.name} goes on`)
    this.state = "running"
    this.lastFrozenAt = this.#kernel.now
    // Which of the things that piled up is seen first is anybody's guess.
    this.#kernel.dice.shuffle(this.#tasks)
    this.#announce()
  }

  /** Nothing of it runs any more. */
  get isOver(): boolean {
    return this.state === "killed" || this.state === "stopped"
  }

  /** The time of its wall clock, in Unix milliseconds. */
  get wallTimeMs(): number {
    return this.#kernel.now + this.clockOffsetMs
  }

  /** Returns whether it was frozen at some time since then. */
  stoodStillSince(time: number): boolean {
    return this.state === "frozen" || this.lastFrozenAt >= time
  }

  #enqueue(task: () => void, priority: number): void {
    if (this.isOver) return
    this.#tasks.push({ task, priority })
    this.#announce()
  }

  #announce(): void {
    if (this.#announced || this.state !== "running" || this.#tasks.length === 0) return
    this.#announced = true
    this.#kernel.ready(this)
  }

  #makeClock(): Clock.Clock {
    const wall = () => this.wallTimeMs
    const wallNanos = () => BigInt(wall()) * nanosPerMs
    const startedAt = this.#kernel.now
    const monotonicNanos = () => BigInt(Math.round((this.#kernel.now - startedAt) * this.rate * 1_000)) * nanosPerMicro
    return {
      currentTimeMillisUnsafe: wall,
      currentTimeMillis: Effect.sync(wall),
      currentTimeNanosUnsafe: wallNanos,
      currentTimeNanos: Effect.sync(wallNanos),
      monotonicTimeNanosUnsafe: monotonicNanos,
      monotonicTimeNanos: Effect.sync(monotonicNanos),
      sleep: (duration) => {
        const ms = Duration.toMillis(duration)
        if (!Number.isFinite(ms)) return Effect.never
        return Effect.callback<void>((resume) => {
          const timer = this.#kernel.after(ms / this.rate, () => this.deliver(() => resume(Effect.void)))
          return Effect.sync(() => {
            timer.canceled = true
          })
        })
      },
    }
  }
}
