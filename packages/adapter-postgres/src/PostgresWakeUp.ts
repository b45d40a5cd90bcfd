import { Effect, Latch, type Scope } from "effect"
import pg from "pg"
import { WakeUp } from "@kiln/core/ports"
import { clientConfig, type ConnectionOptions, cutOff } from "./Connections.ts"
import type { Database } from "./Database.ts"

/** Milliseconds between two notifications of one process at least: NOTIFY takes a lock on the whole database when it commits. */
const coalesceMs = 20
/** Milliseconds until a listening connection that was lost is made again: soon, then less and less often. */
const firstRetryMs = 100
const longestRetryMs = 5_000
/**
 * Milliseconds between two questions whether the listening connection still hears: it may have nothing to hear for days, and
 * of a network that has forgotten it, it would never know. Meanwhile this process looks for work seldom, which is why it need
 * not be asked more often either: an idle process leaves the server alone.
 */
const defaultCheckMs = 60_000

/**
 * Hints by LISTEN and NOTIFY: what one process adds, idle workers of all processes hear of. The connection that listens is
 * its own, and heals by itself; while it is down, processes poll as if there were none. Notifications are sent
 * beside the transactions that they tell of, many for one, and what is lost of them is found by polling.
 */
export const makePostgresWakeUp = (
  options: ConnectionOptions,
  database: Database,
  checkMs: number = defaultCheckMs,
): Effect.Effect<WakeUp["Service"], never, Scope.Scope> =>
  Effect.gen(function* () {
    const latch = yield* Latch.make(false)
    const listener = new Listener(options, checkMs, () => latch.openUnsafe())
    // A hint: if it cannot be sent, polling finds what it was about.
    const send = Effect.ignore(
      database.read("WakeUp.notify", (session) =>
        session.execute("SELECT pg_notify($1, $2)", [listener.channel, listener.mark]),
      ),
    )
    const notifier = new Notifier(() => Effect.runPromise(send))
    yield* Effect.acquireRelease(
      Effect.sync(() => listener.start()),
      () =>
        Effect.promise(() => {
          listener.stop()
          return notifier.stop()
        }),
    )
    return WakeUp.of({
      notify: Effect.sync(() => {
        latch.openUnsafe()
        notifier.notify()
      }),
      wait: Effect.andThen(latch.await, Effect.asVoid(latch.close)),
      reach: Effect.sync(() => (listener.listening ? "installation" : "process")),
    })
  })

/**
 * One hint, for processes that do not listen themselves: an operator's command that opens a gate has ended long before
 * workers look by themselves. Of servers without NOTIFY nothing is expected.
 */
export const hintOnce = (database: Database, options: Pick<ConnectionOptions, "schema">): Effect.Effect<void> =>
  Effect.ignore(
    database.read("WakeUp.hintOnce", (session) =>
      session.execute("SELECT pg_notify($1, $2)", [channelOf(options), ""]),
    ),
  )

/** One channel for each schema of a database; names are cut at 63 bytes, as the server does it. */
const channelOf = ({ schema }: Pick<ConnectionOptions, "schema">): string => `kiln_${schema}`.slice(0, 63)

/** A connection that hears of notifications, made anew when it is lost. */
class Listener {
  listening = false
  readonly channel: string
  readonly #options: ConnectionOptions
  readonly #checkMs: number
  readonly #heard: () => void
  #client: (pg.Client & { readonly processID?: number | null }) | undefined
  #next: NodeJS.Timeout | undefined
  #retryMs = firstRetryMs
  #stopped = false

  constructor(options: ConnectionOptions, checkMs: number, heard: () => void) {
    this.#options = options
    this.#checkMs = checkMs
    this.#heard = heard
    this.channel = channelOf(options)
  }

  /** Tells this process's notifications from those of others: its server process is nobody else's. */
  get mark(): string {
    return String(this.#client?.processID ?? "")
  }

  start(): void {
    const client = new pg.Client(clientConfig(this.#options, "kiln wake-up"))
    this.#client = client
    // More than one error may come of one connection, and the end after it.
    client.on("error", () => this.#lost(client))
    client.on("end", () => this.#lost(client))
    client.on("notification", ({ payload }) => {
      if (payload !== this.mark) this.#heard()
    })
    void this.#listen(client).catch(() => this.#lost(client))
  }

  async #listen(client: pg.Client): Promise<void> {
    await client.connect()
    await client.query(`LISTEN ${pg.escapeIdentifier(this.channel)}`)
    if (client !== this.#client) return
    this.listening = true
    this.#retryMs = firstRetryMs
    this.#checkLater(client)
    // What was said meanwhile was not heard.
    this.#heard()
  }

  #checkLater(client: pg.Client): void {
    this.#next = setTimeout(() => {
      // No answer within the time a new connection may take: then it hears nothing either.
      this.#next = setTimeout(() => this.#lost(client), this.#options.connectTimeoutMs)
      void this.#check(client).catch(() => this.#lost(client))
    }, this.#checkMs)
  }

  async #check(client: pg.Client): Promise<void> {
    await client.query("SELECT")
    if (client !== this.#client) return
    clearTimeout(this.#next)
    this.#checkLater(client)
  }

  #lost(client: pg.Client): void {
    if (client !== this.#client) return
    this.#client = undefined
    this.listening = false
    clearTimeout(this.#next)
    // Nobody may be there any more to say goodbye to.
    cutOff(client)
    if (this.#stopped) return
    // Whoever sleeps long because it would hear of everything must not go on sleeping.
    this.#heard()
    this.#next = setTimeout(() => this.start(), this.#retryMs)
    this.#retryMs = Math.min(2 * this.#retryMs, longestRetryMs)
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#next)
    const client = this.#client
    this.#client = undefined
    this.listening = false
    if (client !== undefined) cutOff(client)
  }
}

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
