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

/** Milliseconds between two notifications of one process at least: NOTIFY takes a lock on the whole database when it commits. */
const coalesceMs = 20

/** Sends at most one notification at a time, and none sooner than the pause after the one before. */
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

  /** What was asked for before is still sent: a process that stops gives its jobs back as its last act, and says so. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#sending
  }
}

/** What hints are sent with: to which channel, and as whose. */
interface Sender {
  readonly options: Pick<ConnectionOptions, "schema">
  /** Empty for those that hear nothing themselves. */
  readonly mark: () => string
}

const nobody = () => ""

export interface PostgresWakeUp {
  readonly wakeUp: WakeUp["Service"]
  /** Tells other processes of jobs that ended here. Never waits. */
  readonly tellFinished: (jobs: ReadonlyArray<JobId>) => void
}

/**
 * Hints by LISTEN and NOTIFY: what one process adds, idle workers of all processes hear of. The connection that listens is
 * its own, and heals by itself; while it is down, processes poll as if there were none. Notifications are sent
 * beside the transactions that they tell of, many for one, and what is lost of them is found by polling.
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
    const tellFinished = yield* makeTellFinished(database, sender)
    const tellWork = yield* makeTellWork(database, sender)
    yield* Effect.acquireRelease(
      Effect.sync(() => listener.start()),
      () => Effect.sync(() => listener.stop()),
    )
    const wakeUp = WakeUp.of({
      notify: Effect.sync(() => {
        latch.openUnsafe()
        tellWork()
      }),
      wait: Effect.andThen(latch.await, Effect.asVoid(latch.close)),
      reach: Effect.sync(() => (listener.listening ? "installation" : "process")),
      onFinished: (hear) =>
        Effect.asVoid(
          Effect.acquireRelease(
            Effect.sync(() => {
              // One function may hear twice, and stop once.
              const hearer = (jobs: ReadonlyArray<JobId> | "any") => hear(jobs)
              hearers.add(hearer)
              const stop = listener.hearFinished()
              return () => {
                hearers.delete(hearer)
                stop()
              }
            }),
            (stop) => Effect.sync(stop),
          ),
        ),
    })
    return { wakeUp, tellFinished }
  })

/** Sends that there is work, once for all of some milliseconds. A hint: if it cannot be sent, polling finds what it was about. */
const makeTellWork = (database: Database, { mark, options }: Sender): Effect.Effect<() => void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const send = hint(database, (session) => notify(session, workChannel(options), mark()))
    const notifier = new Notifier(() => Effect.runPromise(send))
    yield* Effect.addFinalizer(() => Effect.promise(() => notifier.stop()))
    return () => notifier.notify()
  })

/** Sends what ended within some milliseconds at once, beside the transactions in which it did; before the scope closes, the rest. */
const makeTellFinished = (
  database: Database,
  { mark, options }: Sender,
): Effect.Effect<PostgresWakeUp["tellFinished"], never, Scope.Scope> =>
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

/** Both for processes that do not listen themselves. */
export const makeTeller = Effect.fnUntraced(function* (
  database: Database,
  options: Pick<ConnectionOptions, "schema">,
): Effect.fn.Return<Pick<PostgresWakeUp, "tellFinished"> & { readonly tellWork: () => void }, never, Scope.Scope> {
  const sender: Sender = { options, mark: nobody }
  return {
    tellFinished: yield* makeTellFinished(database, sender),
    tellWork: yield* makeTellWork(database, sender),
  }
})

/**
 * One hint, for processes that do not listen themselves: an operator's command that opens a gate has ended long before
 * workers look by themselves. Of servers without NOTIFY nothing is expected.
 */
export const hintOnce = (database: Database, options: Pick<ConnectionOptions, "schema">): Effect.Effect<void> =>
  hint(database, (session) => notify(session, workChannel(options), nobody()))

const hint = (database: Database, send: (session: Session) => Promise<unknown>): Effect.Effect<void> =>
  Effect.ignore(database.read("WakeUp.notify", send))

const notifications = statement((given: Given<{ channel: string; payloads: ReadonlyArray<string> }>) =>
  query.selectNoFrom(sql`pg_notify(${given.channel}, unnest(${given.payloads}::text[]))`.as("sent")),
)

/** With the session's transaction, if there is one, and else at once. */
export const notify = async (session: Session, channel: string, ...payloads: ReadonlyArray<string>): Promise<void> => {
  await session.all(notifications, { channel, payloads })
}
