import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { chunksAtOnce } from "../domain/Chunk.ts"
import { type Chunk, type JobId, type StoreUnavailable } from "../domain/index.ts"
import { type ChunkPage, type ChunkQuestion, JobStore, WakeUp } from "../ports/index.ts"
import type { WakeUpReach } from "../ports/WakeUp.ts"
import { type Deadline, Deadlines } from "./Deadlines.ts"
import { callSafely, type Heard, isEnd, JobEvents } from "./JobEvents.ts"

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

/** Minimum number of milliseconds between two reads of jobs without news: a process makes at most fifty a second. */
const gatherMs = 20
/** A job is read together with others that are due, up to this part of its pause early. */
const earlyPart = 1 / 8
/** Maximum number of jobs in one read. */
const readSize = 100

type Hear<News> = (news: News | undefined) => void

/** What callers wait for, asked once for all that ask the same. */
interface Awaited<Question, News> {
  readonly question: Question
  readonly key: string
  waiters: Array<Waiter<Question, News>>
  reads: number
  /** When it was last read, in milliseconds of the clock; `Infinity` before that. */
  readAt: number
}

/** A caller, which is the deadline of its wait as well: callers wait by the thousand. */
interface Waiter<Question, News> extends Deadline {
  readonly awaited: Awaited<Question, News>
  readonly hear: Hear<News>
}

type Needs = JobEvents | WakeUp

/** A kind of news about jobs. */
export interface Watched<Question extends { readonly jobId: JobId }, News, R> {
  /** Callers whose questions have the same key share reads. */
  readonly keyOf: (question: Question) => string
  /** What an event of the job tells: the news, which callers then hear at once, or that there may be some to read. */
  readonly newsIn: (event: Heard) => News | "perhaps" | undefined
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
    return new JobWatch(watched, services, yield* Clock.Clock, yield* Effect.scope)
  })

/** What is waited for of jobs. Each costs an entry here, and one fiber reads the jobs that have news or are due. */
export class JobWatch<Question extends { readonly jobId: JobId }, News, R> {
  readonly #awaited = new Map<JobId, Array<Awaited<Question, News>>>()
  /** How many there are. */
  #size = 0
  /** Those with news, which are read next. */
  #told = new Set<Awaited<Question, News>>()
  /** Those whose callers read them. */
  #added: Array<Awaited<Question, News>> = []
  /** When to look for those that are due. */
  #nextAt = Infinity
  #reach: WakeUpReach = "process"
  readonly #news = Latch.makeUnsafe(false)
  readonly #watched: Watched<Question, News, R>
  readonly #context: Context.Context<Needs | R>
  readonly #clock: Clock.Clock
  readonly #scope: Scope.Scope
  readonly #deadlines: Deadlines
  readonly #events: JobEvents["Service"]
  readonly #report = (error: unknown) =>
    void Effect.runForkWith(this.#context)(Effect.logError("a listener to the end of a job failed", error))
  #isWatching = false

  constructor(
    watched: Watched<Question, News, R>,
    context: Context.Context<Needs | R>,
    clock: Clock.Clock,
    scope: Scope.Scope,
  ) {
    this.#watched = watched
    this.#context = context
    this.#clock = clock
    this.#scope = scope
    this.#events = Context.get(context, JobEvents)
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
    const awaited = this.#add(question, isReadNext)
    const waiter = { awaited, hear, at: Infinity, pass: () => this.#end(waiter, undefined) }
    // An empty list that grows takes room for many, and most have one.
    if (awaited.waiters.length === 0) awaited.waiters = [waiter]
    else awaited.waiters.push(waiter)
    if (timeoutMs !== Infinity) this.#deadlines.add(timeoutMs, waiter)
    return () => void this.#remove(waiter)
  }

  /** There may be news of this job. */
  tell(jobId: JobId): void {
    for (const awaited of this.#awaited.get(jobId) ?? []) this.#tell(awaited)
  }

  #add(question: Question, isReadNext: boolean): Awaited<Question, News> {
    const { jobId } = question
    const key = this.#watched.keyOf(question)
    const others = this.#awaited.get(jobId)
    const known = others?.find((other) => other.key === key)
    if (known !== undefined) {
      if (!isReadNext) this.#tell(known)
      return known
    }
    const awaited: Awaited<Question, News> = { question, key, waiters: [], reads: 0, readAt: Infinity }
    if (others === undefined) this.#awaited.set(jobId, [awaited])
    else others.push(awaited)
    this.#size += 1
    // Otherwise it is read at once: there may be news since its caller looked, which are not heard any more.
    if (isReadNext) this.#added.push(awaited)
    else this.#told.add(awaited)
    this.#news.openUnsafe()
    if (!this.#isWatching) this.#start()
    return awaited
  }

  #end(waiter: Waiter<Question, News>, news: News | undefined): void {
    // It may be a listener of the embedding program, and others wait for the same job.
    if (this.#remove(waiter)) callSafely(waiter.hear, news, this.#report)
  }

  #endAll(awaited: Awaited<Question, News>, news: News): void {
    for (const waiter of awaited.waiters.slice()) this.#end(waiter, news)
  }

  /** False if it waits no longer. */
  #remove(waiter: Waiter<Question, News>): boolean {
    const { awaited } = waiter
    const at = awaited.waiters.indexOf(waiter)
    if (at === -1) return false
    awaited.waiters.splice(at, 1)
    this.#deadlines.withdraw(waiter)
    if (awaited.waiters.length > 0) return true
    const { jobId } = awaited.question
    const others = (this.#awaited.get(jobId) ?? []).filter((other) => other !== awaited)
    if (others.length === 0) this.#awaited.delete(jobId)
    else this.#awaited.set(jobId, others)
    this.#told.delete(awaited)
    this.#size -= 1
    if (this.#size === 0) this.#news.openUnsafe()
    return true
  }

  #tell(awaited: Awaited<Question, News>): void {
    this.#told.add(awaited)
    this.#news.openUnsafe()
  }

  #start(): void {
    this.#isWatching = true
    // Listens only while somebody waits: most events are those of jobs that nobody waits for. It begins here and not in the fiber, because
    // a caller that reads the job next must miss no event after that.
    const stopListening = this.#events.listenTo("job", (event) => {
      const news = this.#watched.newsIn(event)
      if (!("jobId" in event) || news === undefined) return
      if (news === "perhaps") return this.tell(event.jobId)
      for (const awaited of this.#awaited.get(event.jobId) ?? []) this.#endAll(awaited, news)
    })
    const watch = Effect.onExit(this.#watch, (exit) =>
      Effect.sync(() => {
        stopListening()
        this.#isWatching = false
        // A caller may have come after the last look, while this watch still counted as one.
        if (Exit.isSuccess(exit) && this.#size > 0) this.#start()
      }),
    )
    Fiber.runIn(Effect.runForkWith(this.#context)(watch), this.#scope)
  }

  readonly #watch: Effect.Effect<void, never, Needs | R> = Effect.gen({ self: this }, function* () {
    yield* (yield* WakeUp).onFinished((jobs) => {
      if (jobs === "any") for (const jobId of this.#awaited.keys()) this.tell(jobId)
      else for (const jobId of jobs) this.tell(jobId)
    })
    yield* Effect.whileLoop({ while: () => this.#size > 0, body: () => this.#turn, step: () => {} })
  }).pipe(Effect.scoped)

  /** Reads the jobs that have news and some of those that are due, and waits for the next. */
  readonly #turn = Effect.gen({ self: this }, function* () {
    // Callers whose jobs were read together come together.
    yield* Effect.yieldNow
    this.#news.closeUnsafe()
    const reach = yield* (yield* WakeUp).reach
    // After a change of the pauses, or of the clock.
    if (reach !== this.#reach || this.#nextAt > this.#now() + pauses.installation.longest) this.#nextAt = 0
    this.#reach = reach
    for (const awaited of this.#added.splice(0)) this.#isRead(awaited)
    const told = [...this.#told]
    this.#told.clear()
    for (let at = 0; at < told.length; at += readSize) yield* this.#look(told.slice(at, at + readSize))
    if (this.#nextAt <= this.#now() + gatherMs / 2) yield* this.#look(this.#due())
    yield* Effect.timeoutOption(this.#news.await, Math.max(gatherMs, this.#nextAt - this.#now()))
  })

  #now(): number {
    return this.#clock.currentTimeMillisUnsafe()
  }

  #pauseMs({ reads }: Awaited<Question, News>): number {
    return pauseMs(this.#reach, this.#size, reads - 1)
  }

  #isRead(awaited: Awaited<Question, News>): void {
    awaited.readAt = this.#now()
    awaited.reads += 1
    this.#nextAt = Math.min(this.#nextAt, awaited.readAt + this.#pauseMs(awaited))
  }

  /**
   * Returns those that are due, as many as one read has: no news wait for more. Pauses are compared with the number that is awaited
   * now, so that many that have just come together are not read at once.
   */
  #due(): ReadonlyArray<Awaited<Question, News>> {
    const now = this.#now()
    const due: Array<Awaited<Question, News>> = []
    this.#nextAt = now + pauses.installation.longest
    for (const entries of this.#awaited.values())
      for (const awaited of entries) {
        // Its first read comes anyway.
        if (awaited.readAt === Infinity) continue
        const pause = this.#pauseMs(awaited)
        const left = awaited.readAt + pause - now
        const isDue = left <= Math.max(gatherMs / 2, pause * earlyPart) || awaited.readAt > now
        if (isDue && due.length < readSize) due.push(awaited)
        else this.#nextAt = Math.min(this.#nextAt, now + left)
      }
    return due
  }

  #look(asked: ReadonlyArray<Awaited<Question, News>>) {
    return Effect.suspend(() => {
      const entries = asked.filter(({ waiters }) => waiters.length > 0)
      if (entries.length === 0) return Effect.void
      // An outage may end before the jobs do.
      const read = Effect.orElseSucceed(this.#watched.read(entries.map(({ question }) => question)), () => [])
      return Effect.map(read, (found) => {
        for (const [at, awaited] of entries.entries()) {
          const news = found[at]
          if (news !== undefined) this.#endAll(awaited, news)
          if (awaited.waiters.length > 0) this.#isRead(awaited)
        }
      })
    })
  }
}

/** A job whose record is gone has nothing that follows. */
const nothing: ChunkPage = { chunks: [], isFinished: true }

const hasNews = ({ chunks, isFinished }: ChunkPage): boolean => chunks.length > 0 || isFinished

/**
 * Returns the function that streams the chunks of a job, from an index until the job has finished. All readers of the process share one
 * watch, which the attempts of this process wake at once, and those of others as far as the store carries hints. An outage of the store
 * only delays it.
 */
export const makeStreamChunks = Effect.gen(function* () {
  const store = yield* JobStore
  const watch = yield* makeJobWatch({
    keyOf: ({ from, jobId }: ChunkQuestion) => `${jobId} ${from}`,
    newsIn: (event) => (event.type === "chunks" || isEnd(event) ? "perhaps" : undefined),
    read: (questions) =>
      Effect.map(store.readChunks(questions), (pages) =>
        pages.map((page = nothing) => (hasNews(page) ? page : undefined)),
      ),
  })
  return (jobId: JobId, from: number): Stream.Stream<Chunk> =>
    Stream.paginate(from, (next) =>
      Effect.map(watch.next({ jobId, from: next, limit: chunksAtOnce }, Infinity), (page) => {
        const { chunks, isFinished } = page ?? nothing
        const isLast = isFinished && chunks.length < chunksAtOnce
        return [chunks, isLast ? Option.none<number>() : Option.some(next + chunks.length)] as const
      }),
    )
})
