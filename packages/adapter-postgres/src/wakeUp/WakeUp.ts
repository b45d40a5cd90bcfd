import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import { WakeUp } from "@kiln/core/ports"
import type { ConnectionOptions } from "../connection/pool.ts"
import type { Database } from "../connection/Database.ts"
import type { OpenDatabase } from "../connection/openDatabase.ts"
import { defaultCheckMs, finishedChannel, FinishedJobs, Listener, workChannel } from "./Listener.ts"
import { type SignaledJobs, signaledPayload } from "../jobs/waitingJobs.ts"
import type { Session } from "../connection/Session.ts"
import { type Given, query, statement } from "../Statement.ts"

/** Settings of the hints that are sent: the channel's schema and the sender's mark. */
interface Sender {
  readonly options: Pick<ConnectionOptions, "schema">
  /** Empty for processes that do not listen. */
  readonly mark: () => string
}

const nobody = () => ""

export interface PostgresWakeUp {
  readonly wakeUp: WakeUp["Service"]
  /** Notifies other processes of jobs that ended here. Never waits. */
  readonly announceFinished: (jobs: ReadonlyArray<JobId>) => void
  /** Lets creations carry the notification of their jobs. Absent where notifications are not known to work. */
  readonly carrier?: Carrier
}

/** A notification that a creation sends when it commits, so that workers hear of its jobs without another commit. */
export interface Carrier {
  /** Returns the notification that the next creation carries; `undefined` unless it is time for one. */
  readonly take: () => { readonly channel: string; readonly payload: string } | undefined
  /** Must be called when that creation has added jobs. */
  readonly sent: () => void
}

/**
 * Wakes idle workers of all processes with LISTEN and NOTIFY. The listening connection is separate and reconnects by itself;
 * while it is down, processes poll. Notifications are coalesced and sent outside of the transactions that they announce; polling
 * makes up for lost ones.
 */
export const makePostgresWakeUp = (
  {
    connections: options,
    database,
    listeningClient,
  }: Pick<OpenDatabase, "connections" | "database" | "listeningClient">,
  checkMs: number = defaultCheckMs,
  signaled?: Pick<SignaledJobs, "hear">,
): Effect.Effect<PostgresWakeUp, never, Scope.Scope> =>
  Effect.gen(function* () {
    const latch = yield* Latch.make(false)
    const hearers = new Set<(jobs: ReadonlyArray<JobId> | "any") => void>()
    const listener = new Listener(options, listeningClient, checkMs, {
      work: (payload) => {
        if (payload === undefined || payload === signaledPayload) signaled?.hear()
        latch.openUnsafe()
      },
      finished: (jobs) => hearers.forEach((hear) => hear(jobs)),
    })
    const sender = { options, mark: () => listener.mark }
    const announceFinished = yield* makeAnnounceFinished(database, sender)
    const work = yield* makeWorkNotifier(database, sender)
    yield* Effect.acquireRelease(
      Effect.sync(() => listener.start()),
      () => Effect.sync(() => listener.stop()),
    )
    const wakeUp = WakeUp.of({
      notify: Effect.sync(() => {
        latch.openUnsafe()
        work.notify()
      }),
      wait: Effect.andThen(
        Effect.sync(() => listener.listenToWork()),
        Effect.andThen(latch.await, Effect.asVoid(latch.close)),
      ),
      reach: Effect.sync(() => (listener.listening ? "installation" : "process")),
      onFinished: (hear) =>
        Effect.asVoid(
          Effect.acquireRelease(
            Effect.sync(() => {
              // The same function may be registered twice.
              const hearer = (jobs: ReadonlyArray<JobId> | "any") => hear(jobs)
              hearers.add(hearer)
              const stop = listener.subscribeFinished()
              return () => {
                hearers.delete(hearer)
                stop()
              }
            }),
            (stop) => Effect.sync(stop),
          ),
        ),
    })
    const channel = workChannel(options)
    const carrier: Carrier = {
      // A server where LISTEN works has NOTIFY as well.
      take: () => (listener.listening && work.mayCarry() ? { channel, payload: listener.mark } : undefined),
      sent: () => work.carried(),
    }
    return { wakeUp, announceFinished, carrier }
  })

/**
 * Bounds of the milliseconds between two notifications of a process. The commit of a NOTIFY locks out those of all other
 * processes until it is on disk, so a process pauses for twice as long as its last one took: the busier the server or the slower
 * its disk, the fewer notifications.
 */
const defaultShortestPauseMs = 1
const longestPauseMs = 20

/**
 * Milliseconds after a pause for which an announcement waits for a transaction that carries it, before it takes a statement: for
 * one that is in progress, and the next one to begin.
 */
const carrierWithin = (tookMs: number): number => 2 + Math.min(longestPauseMs / 2, tookMs)

/** Sends one notification at a time, with a pause between two. */
export class Notifier {
  readonly #send: () => Promise<void>
  readonly #shortestPauseMs: number
  readonly #now: () => number
  #begunAt = -Infinity
  #nextAt = -Infinity
  #tookMs = 0
  #carriedAt = -Infinity
  /** Numbers of announcements: requested, covered by the last notification, and known to be covered. */
  #asked = 0
  #covered = 0
  #told = 0
  #waiting: Promise<void> | undefined
  #isSending = false
  #stopped = false

  /** `now` returns monotonic milliseconds. */
  constructor(
    send: () => Promise<void>,
    shortestPauseMs: number = defaultShortestPauseMs,
    now: () => number = () => performance.now(),
  ) {
    this.#send = send
    this.#shortestPauseMs = shortestPauseMs
    this.#now = now
  }

  /** Sends a notification, now or after the pause; not if one was just carried by a transaction, or is carried meanwhile. */
  notify(): void {
    if (this.#stopped) return
    const isCarried = this.#now() - this.#carriedAt < longestPauseMs
    this.#carriedAt = -Infinity
    if (isCarried) return
    this.#asked += 1
    this.#waiting ??= this.#sendAll().finally(() => {
      this.#waiting = undefined
    })
  }

  /**
   * Whether a transaction that is about to begin may carry a notification, which spares its receivers another commit. If it is
   * not known to have committed, the longest pause counts from here.
   */
  mayCarry(): boolean {
    if (this.#stopped || this.#isSending || this.#now() < this.#nextAt) return false
    this.#begin()
    return true
  }

  /** Must be called when such a transaction has committed, and before it is announced by `notify`, which then has nothing to send. */
  carried(): void {
    this.#end()
    this.#carriedAt = this.#now()
  }

  /** Sends what was requested before: a process returns its jobs and announces them during shutdown. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#waiting
  }

  /** Covers the announcements so far. Later ones may be about jobs that are not committed yet. */
  #begin(): void {
    this.#begunAt = this.#now()
    this.#nextAt = this.#begunAt + longestPauseMs
    this.#covered = this.#asked
  }

  #end(): void {
    const now = this.#now()
    this.#tookMs = now - this.#begunAt
    this.#nextAt = now + Math.min(longestPauseMs, Math.max(this.#shortestPauseMs, 2 * this.#tookMs))
    this.#told = this.#covered
  }

  async #sendAll(): Promise<void> {
    // Transactions that turn out to carry nothing must not put it off for longer.
    const latestAt = this.#now() + longestPauseMs
    while (this.#told < this.#asked) {
      const pauseMs = Math.min(this.#nextAt, latestAt) - this.#now()
      if (pauseMs > 0 && !this.#stopped) {
        const waitMs = pauseMs + carrierWithin(this.#tookMs)
        await new Promise((resolve) => setTimeout(resolve, waitMs))
      } else await this.#sendOne()
    }
  }

  async #sendOne(): Promise<void> {
    this.#isSending = true
    this.#begin()
    try {
      await this.#send()
    } finally {
      this.#isSending = false
      this.#end()
    }
  }
}

/** Sends that there is work, once for all of some milliseconds. A hint: if it cannot be sent, polling finds what it was about. */
const makeWorkNotifier = (database: Database, { mark, options }: Sender): Effect.Effect<Notifier, never, Scope.Scope> =>
  Effect.gen(function* () {
    const send = hint(database, workChannel(options), mark())
    const notifier = new Notifier(() => Effect.runPromise(send))
    yield* Effect.addFinalizer(() => Effect.promise(() => notifier.stop()))
    return notifier
  })

/** Coalesces finished jobs into few notifications, outside of their transactions. Sends the rest before the scope closes. */
const makeAnnounceFinished = (
  database: Database,
  { mark, options }: Sender,
): Effect.Effect<PostgresWakeUp["announceFinished"], never, Scope.Scope> =>
  Effect.gen(function* () {
    const finished = new FinishedJobs()
    const channel = finishedChannel(options)
    const send = Effect.suspend(() => {
      const payloads = finished.take(mark())
      return hint(database, channel, ...payloads)
    })
    // No transaction carries these.
    const notifier = new Notifier(() => Effect.runPromise(send), longestPauseMs)
    yield* Effect.addFinalizer(() => Effect.promise(() => notifier.stop()))
    return (jobs) => {
      if (jobs.length === 0) return
      finished.add(jobs)
      notifier.notify()
    }
  })

/** Both functions, for processes that do not listen. */
export const makeNotifiers = Effect.fnUntraced(function* (
  database: Database,
  options: Pick<ConnectionOptions, "schema">,
): Effect.fn.Return<
  Pick<PostgresWakeUp, "announceFinished"> & { readonly announceWork: () => void },
  never,
  Scope.Scope
> {
  const sender: Sender = { options, mark: nobody }
  const announceFinished = yield* makeAnnounceFinished(database, sender)
  const work = yield* makeWorkNotifier(database, sender)
  return { announceFinished, announceWork: () => work.notify() }
})

/**
 * Sends one hint, for example after an operator's command opened a gate. Ignores failures, for servers without NOTIFY.
 */
export const hintOnce = (database: Database, options: Pick<ConnectionOptions, "schema">): Effect.Effect<void> =>
  hint(database, workChannel(options), nobody())

const hint = (database: Database, channel: string, ...payloads: ReadonlyArray<string>): Effect.Effect<void> =>
  Effect.ignore(database.read("WakeUp.notify", (session) => session.all(hints, { channel, payloads })))

/** Sends payloads in a commit that does not wait for the disk: nothing is written, and other notifications wait for its end. */
const hints = statement((given: Given<{ channel: string; payloads: ReadonlyArray<string> }>) =>
  query.selectNoFrom([
    sql`set_config('synchronous_commit', 'off', true)`.as("commit"),
    sql`pg_notify(${given.channel}, unnest(${given.payloads}::text[]))`.as("sent"),
  ]),
)

const notifications = statement((given: Given<{ channel: string; payloads: ReadonlyArray<string> }>) =>
  query.selectNoFrom(sql`pg_notify(${given.channel}, unnest(${given.payloads}::text[]))`.as("sent")),
)

/** Notifies when the session's transaction commits. */
export const notify = async (session: Session, channel: string, ...payloads: ReadonlyArray<string>): Promise<void> => {
  await session.all(notifications, { channel, payloads })
}
