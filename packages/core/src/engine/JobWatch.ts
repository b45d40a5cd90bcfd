import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { JobId, StoreUnavailable } from "../domain/index.ts"
import { WakeUp } from "../ports/index.ts"
import type { WakeUpReach } from "../ports/WakeUp.ts"
import { Deadlines } from "./Deadlines.ts"
import { JobEvents } from "./JobEvents.ts"

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

type Hear<News> = (news: News | undefined) => void

/** What callers wait for, asked once for all that ask the same. */
interface Awaited<Question, News> {
  readonly question: Question
  readonly hear: Set<Hear<News>>
  readonly stopListening: () => void
  reads: number
  /** Milliseconds of the clock at which the job is read again, whatever was heard; `undefined` before its caller has read it. */
  dueAt: number | undefined
}

type Needs = JobEvents | WakeUp

/** A kind of news about jobs. */
export interface Watched<Question extends { readonly jobId: JobId }, News, R> {
  /** Callers whose questions have the same key share reads. */
  readonly keyOf: (question: Question) => string
  /** Whether there may be news after this event of the job. */
  readonly isHint: (event: Parameters<Parameters<JobEvents["Service"]["listenTo"]>[1]>[0]) => boolean
  /** Reads the store. `undefined`: no news yet. */
  readonly read: (
    questions: ReadonlyArray<Question>,
  ) => Effect.Effect<ReadonlyArray<News | undefined>, StoreUnavailable, R>
}

/** Makes a watch of a process, which ends with the scope. */
export const makeJobWatch = <Question extends { readonly jobId: JobId }, News, R>(
  watched: Watched<Question, News, R>,
): Effect.Effect<JobWatch<Question, News, R>, never, Needs | R | Scope.Scope> =>
  Effect.gen(function* () {
    const services = yield* Effect.context<Needs | R>()
    return new JobWatch(watched, services, yield* Clock.Clock, yield* JobEvents, yield* Effect.scope)
  })

/** What is waited for of jobs. Each costs an entry here, and one fiber reads the jobs that have news or are due. */
export class JobWatch<Question extends { readonly jobId: JobId }, News, R> {
  readonly #awaited = new Map<string, Awaited<Question, News>>()
  readonly #keysOf = new Map<JobId, Set<string>>()
  readonly #told = new Set<string>()
  readonly #news = Latch.makeUnsafe(false)
  readonly #watched: Watched<Question, News, R>
  readonly #context: Context.Context<Needs | R>
  readonly #clock: Clock.Clock
  readonly #events: JobEvents["Service"]
  readonly #scope: Scope.Scope
  readonly #deadlines: Deadlines
  #isWatching = false

  constructor(
    watched: Watched<Question, News, R>,
    context: Context.Context<Needs | R>,
    clock: Clock.Clock,
    events: JobEvents["Service"],
    scope: Scope.Scope,
  ) {
    this.#watched = watched
    this.#context = context
    this.#clock = clock
    this.#events = events
    this.#scope = scope
    this.#deadlines = new Deadlines(clock, scope, Effect.runForkWith(context))
  }

  /** Returns the news once there are some; `undefined` if the time is over. */
  next(question: Question, timeoutMs: number): Effect.Effect<News | undefined> {
    return Effect.callback<News | undefined>((resume) => {
      const stop = this.onNews(question, timeoutMs, (news) => resume(Effect.succeed(news)), false)
      return Effect.sync(stop)
    })
  }

  /**
   * Calls `hear` once, later: with the news, or with `undefined` when the time is over. It is not called after the returned function was.
   *
   * @param isReadNext whether the caller reads the job after this call, and so sees news from before. Otherwise it is read here.
   */
  onNews(question: Question, timeoutMs: number, hear: Hear<News>, isReadNext: boolean): () => void {
    const key = this.#watched.keyOf(question)
    let cancel: (() => void) | undefined
    const once: Hear<News> = (news) => {
      stop()
      hear(news)
    }
    const stop = (): void => {
      cancel?.()
      this.#remove(key, once)
    }
    this.#add(key, question, once, isReadNext)
    if (timeoutMs !== Infinity) cancel = this.#deadlines.after(timeoutMs, () => once(undefined))
    return stop
  }

  #add(key: string, question: Question, hear: Hear<News>, isReadNext: boolean): void {
    const known = this.#awaited.get(key)
    if (known !== undefined) {
      known.hear.add(hear)
      if (!isReadNext) this.#tell(key)
      return
    }
    const { jobId } = question
    const stopListening = this.#events.listenTo(jobId, (event) => {
      if (this.#watched.isHint(event)) this.#tell(key)
    })
    // Read at once: there may be news since its caller looked, which are not heard any more.
    const dueAt = isReadNext ? undefined : this.#clock.currentTimeMillisUnsafe()
    this.#awaited.set(key, { question, hear: new Set([hear]), stopListening, reads: 0, dueAt })
    const keys = this.#keysOf.get(jobId) ?? new Set()
    this.#keysOf.set(jobId, keys.add(key))
    this.#news.openUnsafe()
    if (!this.#isWatching) this.#start()
  }

  #remove(key: string, hear: Hear<News>): void {
    const entry = this.#awaited.get(key)
    entry?.hear.delete(hear)
    if (entry?.hear.size !== 0) return
    entry.stopListening()
    this.#awaited.delete(key)
    this.#told.delete(key)
    const { jobId } = entry.question
    const keys = this.#keysOf.get(jobId)
    keys?.delete(key)
    if (keys?.size === 0) this.#keysOf.delete(jobId)
    this.#news.openUnsafe()
  }

  #tell(key: string): void {
    if (!this.#awaited.has(key)) return
    this.#told.add(key)
    this.#news.openUnsafe()
  }

  #start(): void {
    this.#isWatching = true
    Fiber.runIn(Effect.runForkWith(this.#context)(this.#watch), this.#scope)
  }

  readonly #watch: Effect.Effect<void, never, Needs | R> = Effect.gen({ self: this }, function* () {
    yield* (yield* WakeUp).onFinished((jobs) => {
      if (jobs === "any") for (const key of this.#awaited.keys()) this.#tell(key)
      else for (const jobId of jobs) for (const key of this.#keysOf.get(jobId) ?? []) this.#tell(key)
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

  /** Reads the jobs that have news or are due, and waits for the next. */
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
    for (const [key, entry] of this.#awaited) {
      const dueAt = (entry.dueAt ??= now + pauseMs(reach, this.#awaited.size, entry.reads++))
      // Neither a clock that was set back nor a pause from a time with notifications must put off a read.
      if (dueAt <= now + gatherMs / 2 || dueAt > now + 2 * longest) due.add(key)
      else nextAt = Math.min(nextAt, dueAt)
    }
    const keys = [...due]
    for (let at = 0; at < keys.length; at += readSize) yield* this.#look(keys.slice(at, at + readSize))
    const untilNext = keys.length > 0 ? gatherMs : Math.min(nextAt - now, pauses.installation.longest)
    yield* Effect.timeoutOption(this.#news.await, untilNext)
  })

  #look(keys: ReadonlyArray<string>) {
    return Effect.gen({ self: this }, function* () {
      const reach = yield* (yield* WakeUp).reach
      const entries = keys.flatMap((key) => this.#awaited.get(key) ?? [])
      if (entries.length === 0) return
      const questions = entries.map(({ question }) => question)
      // An outage may end before the jobs do.
      const found = yield* Effect.orElseSucceed(this.#watched.read(questions), () => [])
      const now = yield* Clock.currentTimeMillis
      for (const [at, entry] of entries.entries()) {
        const news = found[at]
        if (news !== undefined) for (const hear of entry.hear) hear(news)
        entry.dueAt = now + pauseMs(reach, this.#awaited.size, entry.reads)
        entry.reads += 1
      }
    })
  }
}
