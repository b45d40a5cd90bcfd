import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import { WakeUp } from "@kiln/core/ports"
import type { ConnectionOptions } from "../Connections.ts"
import type { Database } from "../Database.ts"
import { defaultCheckMs, finishedChannel, FinishedJobs, Listener, workChannel } from "./Listener.ts"
import type { Session } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

/** Minimum milliseconds between two notifications of a process: NOTIFY locks the whole database when it commits. */
const coalesceMs = 20

/** Sends one notification at a time, with a pause after each. */
class Notifier {
  readonly #send: () => Promise<void>
  #wanted = false
  #sending: Promise<void> | undefined
  #stopped = false

  constructor(send: () => Promise<void>) {
    this.#send = send
  }

  notify(): void {
    if (this.#stopped) return
    this.#wanted = true
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
  }

  async #sendAll(): Promise<void> {
    while (this.#wanted) {
      this.#wanted = false
      await this.#send()
      if (!this.#stopped) await new Promise((resolve) => setTimeout(resolve, coalesceMs))
    }
  }

  /** Sends what was requested before: a process returns its jobs and announces them during shutdown. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#sending
  }
}

/** How hints are sent: the channel's schema and the sender's mark. */
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
}

/**
 * Wakes idle workers of all processes with LISTEN and NOTIFY. The listening connection is separate and reconnects by itself;
 * while it is down, processes poll. Notifications are coalesced and sent outside of the transactions that they announce; polling
 * makes up for lost ones.
 */
export const makePostgresWakeUp = (
  options: ConnectionOptions,
  database: Database,
  checkMs: number = defaultCheckMs,
): Effect.Effect<PostgresWakeUp, never, Scope.Scope> =>
  Effect.gen(function* () {
    const latch = yield* Latch.make(false)
    const hearers = new Set<(jobs: ReadonlyArray<JobId> | "any") => void>()
    const listener = new Listener(options, checkMs, {
      work: () => latch.openUnsafe(),
      finished: (jobs) => hearers.forEach((hear) => hear(jobs)),
    })
    const sender = { options, mark: () => listener.mark }
    const announceFinished = yield* makeAnnounceFinished(database, sender)
    const announceWork = yield* makeAnnounceWork(database, sender)
    yield* Effect.acquireRelease(
      Effect.sync(() => listener.start()),
      () => Effect.sync(() => listener.stop()),
    )
    const wakeUp = WakeUp.of({
      notify: Effect.sync(() => {
        latch.openUnsafe()
        announceWork()
      }),
      wait: Effect.andThen(latch.await, Effect.asVoid(latch.close)),
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
    return { wakeUp, announceFinished }
  })

/** Sends that there is work, once for all of some milliseconds. A hint: if it cannot be sent, polling finds what it was about. */
const makeAnnounceWork = (
  database: Database,
  { mark, options }: Sender,
): Effect.Effect<() => void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const send = hint(database, (session) => notify(session, workChannel(options), mark()))
    const notifier = new Notifier(() => Effect.runPromise(send))
    yield* Effect.addFinalizer(() => Effect.promise(() => notifier.stop()))
    return () => notifier.notify()
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
      return hint(database, (session) => notify(session, channel, ...payloads))
    })
    const notifier = new Notifier(() => Effect.runPromise(send))
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
  return {
    announceFinished: yield* makeAnnounceFinished(database, sender),
    announceWork: yield* makeAnnounceWork(database, sender),
  }
})

/**
 * Sends one hint, for example after an operator's command opened a gate. Ignores failures, for servers without NOTIFY.
 */
export const hintOnce = (database: Database, options: Pick<ConnectionOptions, "schema">): Effect.Effect<void> =>
  hint(database, (session) => notify(session, workChannel(options), nobody()))

const hint = (database: Database, send: (session: Session) => Promise<unknown>): Effect.Effect<void> =>
  Effect.ignore(database.read("WakeUp.notify", send))

const notifications = statement((given: Given<{ channel: string; payloads: ReadonlyArray<string> }>) =>
  query.selectNoFrom(sql`pg_notify(${given.channel}, unnest(${given.payloads}::text[]))`.as("sent")),
)

/** Notifies when the session's transaction commits, or immediately outside a transaction. */
export const notify = async (session: Session, channel: string, ...payloads: ReadonlyArray<string>): Promise<void> => {
  await session.all(notifications, { channel, payloads })
}
