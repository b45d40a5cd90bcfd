import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { isFinished, type Job, type JobId } from "../domain/index.ts"
import { JobDirectory, WakeUp } from "../ports/index.ts"
import type { WakeUpReach } from "../ports/WakeUp.ts"
import { Deadlines } from "./Deadlines.ts"
import { isEnd, JobEvents } from "./JobEvents.ts"

/** Milliseconds between two reads, growing. If every process is notified of a job's end, reading is only the fallback. */
const pauses = {
  process: { first: 50, longest: 2_000 },
  installation: { first: 1_000, longest: 5_000 },
} as const

/**
 * Milliseconds for each job that is waited for: where every process is notified, all are read again at most once in this time, so
 * that thousands of long waits cost next to nothing.
 */
const readMs = 10
const longestPauseMs = 30_000

const pauseMs = (reach: WakeUpReach, awaited: number, reads: number): number => {
  const { first, longest } = pauses[reach]
  const pause = Math.min(longest, first * 2 ** Math.min(reads, 16))
  return reach === "process" ? pause : Math.max(pause, Math.min(longestPauseMs, awaited * readMs))
}

/** Jobs that become due within these milliseconds are read together: a process reads at most fifty times a second. */
const gatherMs = 20
/** Maximum number of jobs in one read. */
const readSize = 100

type Hear = (job: Job | undefined) => void

/** A job that is waited for. */
interface Awaited {
  readonly hear: Set<Hear>
  readonly stopListening: () => void
  reads: number
  /** Milliseconds of the clock at which the job is read again, whatever was heard; `undefined` before its caller has read it. */
  dueAt: number | undefined
}

type Needs = JobDirectory | JobEvents | WakeUp

/** Makes the watch of a process, which ends with the scope. */
export const makeJobWatch: Effect.Effect<JobWatch, never, Needs | Scope.Scope> = Effect.gen(function* () {
  return new JobWatch(yield* Effect.context<Needs>(), yield* Clock.Clock, yield* JobEvents, yield* Effect.scope)
})

/** The jobs whose end is waited for. Each costs an entry here, and one fiber reads those that have ended or are due. */
class JobWatch {
  readonly #awaited = new Map<JobId, Awaited>()
  readonly #told = new Set<JobId>()
  readonly #news = Latch.makeUnsafe(false)
  readonly #context: Context.Context<Needs>
  readonly #clock: Clock.Clock
  readonly #events: JobEvents["Service"]
  readonly #scope: Scope.Scope
  readonly #deadlines: Deadlines
  #isWatching = false

  constructor(context: Context.Context<Needs>, clock: Clock.Clock, events: JobEvents["Service"], scope: Scope.Scope) {
    this.#context = context
    this.#clock = clock
    this.#events = events
    this.#scope = scope
    this.#deadlines = new Deadlines(clock, scope, Effect.runForkWith(context))
  }

  /** Returns the job once it is finished; `undefined` if the time is over. It must exist. */
  ended(jobId: JobId, timeoutMs: number): Effect.Effect<Job | undefined> {
    return Effect.callback<Job | undefined>((resume) => {
      const stop = this.onEnd(jobId, timeoutMs, (job) => resume(Effect.succeed(job)), false)
      return Effect.sync(stop)
    })
  }

  /**
   * Calls `hear` once, later: with the job when it is finished, with `undefined` when the time is over. It is not called after the
   * returned function was. The job must exist.
   *
   * @param isReadNext whether the caller reads the job after this call, and so sees an end from before. Otherwise it is read here.
   */
  onEnd(jobId: JobId, timeoutMs: number, hear: Hear, isReadNext: boolean): () => void {
    let cancel: (() => void) | undefined
    const once: Hear = (job) => {
      stop()
      hear(job)
    }
    const stop = (): void => {
      cancel?.()
      this.#remove(jobId, once)
    }
    this.#add(jobId, once, isReadNext)
    if (timeoutMs !== Infinity) cancel = this.#deadlines.after(timeoutMs, () => once(undefined))
    return stop
  }

  #add(jobId: JobId, hear: Hear, isReadNext: boolean): void {
    const known = this.#awaited.get(jobId)
    if (known !== undefined) {
      known.hear.add(hear)
      if (!isReadNext) this.#tell(jobId)
      return
    }
    const stopListening = this.#events.listenTo(jobId, (event) => {
      if (isEnd(event)) this.#tell(jobId)
    })
    // Read at once: the job may have ended since its caller read it, and its end is not heard any more.
    const dueAt = isReadNext ? undefined : this.#clock.currentTimeMillisUnsafe()
    this.#awaited.set(jobId, { hear: new Set([hear]), stopListening, reads: 0, dueAt })
    this.#news.openUnsafe()
    if (!this.#isWatching) this.#start()
  }

  #remove(jobId: JobId, hear: Hear): void {
    const entry = this.#awaited.get(jobId)
    entry?.hear.delete(hear)
    if (entry?.hear.size !== 0) return
    entry.stopListening()
    this.#awaited.delete(jobId)
    this.#told.delete(jobId)
    this.#news.openUnsafe()
  }

  #tell(jobId: JobId): void {
    if (!this.#awaited.has(jobId)) return
    this.#told.add(jobId)
    this.#news.openUnsafe()
  }

  #start(): void {
    this.#isWatching = true
    Fiber.runIn(Effect.runForkWith(this.#context)(this.#watch), this.#scope)
  }

  readonly #watch: Effect.Effect<void, never, Needs> = Effect.gen({ self: this }, function* () {
    yield* (yield* WakeUp).onFinished((jobs) => {
      for (const jobId of jobs === "any" ? this.#awaited.keys() : jobs) this.#tell(jobId)
    })
    yield* Effect.whileLoop({ while: () => this.#awaited.size > 0, body: () => this.#turn, step: () => {} })
  }).pipe(
    Effect.scoped,
    Effect.onExit((exit) =>
      Effect.sync(() => {
        this.#isWatching = false
        // A caller may have come after the last look, while this watch still counted as one.
        if (Exit.isSuccess(exit) && this.#awaited.size > 0) this.#start()
      }),
    ),
  )

  /** Reads the jobs that have ended or are due, and waits for the next. */
  readonly #turn = Effect.gen({ self: this }, function* () {
    // Callers whose jobs were read together come together.
    yield* Effect.yieldNow
    this.#news.closeUnsafe()
    const now = yield* Clock.currentTimeMillis
    const due = new Set(this.#told)
    this.#told.clear()
    const reach = yield* (yield* WakeUp).reach
    const longest = pauseMs(reach, this.#awaited.size, Infinity)
    let nextAt = Infinity
    for (const [jobId, entry] of this.#awaited) {
      const dueAt = (entry.dueAt ??= now + pauseMs(reach, this.#awaited.size, entry.reads++))
      // Neither a clock that was set back nor a pause from a time with notifications must put off a read.
      if (dueAt <= now + gatherMs / 2 || dueAt > now + 2 * longest) due.add(jobId)
      else nextAt = Math.min(nextAt, dueAt)
    }
    const jobIds = [...due]
    for (let at = 0; at < jobIds.length; at += readSize) yield* this.#look(jobIds.slice(at, at + readSize))
    const untilNext = jobIds.length > 0 ? gatherMs : Math.min(nextAt - now, pauses.installation.longest)
    yield* Effect.timeoutOption(this.#news.await, untilNext)
  })

  #look(jobIds: ReadonlyArray<JobId>) {
    return Effect.gen({ self: this }, function* () {
      const directory = yield* JobDirectory
      const reach = yield* (yield* WakeUp).reach
      // An outage may end before the jobs do.
      const jobs = yield* Effect.orElseSucceed(directory.readJobs(jobIds), () => [])
      const now = yield* Clock.currentTimeMillis
      jobIds.forEach((jobId, at) => {
        const entry = this.#awaited.get(jobId)
        if (entry === undefined) return
        const job = jobs[at]
        if (job !== undefined && isFinished(job)) for (const hear of entry.hear) hear(job)
        entry.dueAt = now + pauseMs(reach, this.#awaited.size, entry.reads)
        entry.reads += 1
      })
    })
  }
}
