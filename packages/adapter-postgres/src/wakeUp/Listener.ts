import pg from "pg"
import type { JobId } from "@kiln/core/domain"
import { inSchema } from "../Statement.ts"
import type { ConnectionOptions, ListeningClient } from "../connection/pool.ts"

/** A validated name, short enough for a prefix within the 63 bytes of an identifier. */
interface InSchema {
  readonly schema: string
}

/** The channel that announces work, one for each schema. The payload is the sender's mark, so that a process ignores its own. */
export const workChannel = ({ schema }: InSchema): string => `kiln_${schema}`

/** The channel that announces finished jobs. Schema names contain no dot, so no two channels are the same. */
export const finishedChannel = ({ schema }: InSchema): string => `kiln.${schema}`

/**
 * The advisory lock that processes share while they listen to finished jobs. A transaction that ends jobs tries to take it alone: if it
 * can, nobody listens, and one who wants to must wait for its end and then finds the jobs finished.
 */
export const finishedLock = `hashtextextended(current_database() || ' "kiln".finished', 0)`

/** Maximum bytes of a notification; the server's limit is 8,000. */
const mostBytes = 7_900
/** Maximum number of jobs that a round announces by id. Beyond that, waiting callers must look themselves. */
const mostJobs = 2_000

/** Formats a payload: the sender's mark, then ids, or a star for any job. */
const text = (mark: string, jobs: string): string => `${mark} ${jobs}`

export const readFinished = (
  payload: string,
): { readonly mark: string; readonly jobs: ReadonlyArray<JobId> | "any" } => {
  const [mark = "", jobs = "*"] = payload.split(" ", 2)
  return { mark, jobs: jobs === "*" ? "any" : jobs.split(",").filter(isJobId) }
}

const isJobId = (id: string): id is JobId => id.startsWith("job_")

/** Jobs that ended in this process and have not been announced yet. */
export class FinishedJobs {
  #jobs = new Set<JobId>()
  #tooMany = false

  add(jobs: ReadonlyArray<JobId>): void {
    for (const id of jobs) {
      if (this.#jobs.size >= mostJobs) this.#tooMany = true
      else this.#jobs.add(id)
    }
  }

  /** Returns everything added since the last call, as payloads. */
  take(mark: string): ReadonlyArray<string> {
    const [jobs, tooMany] = [this.#jobs, this.#tooMany]
    this.#jobs = new Set()
    this.#tooMany = false
    return tooMany ? [text(mark, "*")] : payloadsOf(mark, jobs)
  }
}

const payloadsOf = (mark: string, jobs: ReadonlySet<JobId>): ReadonlyArray<string> => {
  const payloads: Array<Array<JobId>> = []
  const bytesOfMark = Buffer.byteLength(text(mark, ""))
  let bytes = Infinity
  for (const id of jobs) {
    // With a comma before it.
    const more = Buffer.byteLength(id) + 1
    if (bytes + more > mostBytes) {
      payloads.push([])
      bytes = bytesOfMark
    }
    payloads.at(-1)?.push(id)
    bytes += more
  }
  return payloads.map((ids) => text(mark, ids.join()))
}

/** Milliseconds until the listening connection is reopened; the pause grows. */
const firstRetryMs = 100
const longestRetryMs = 5_000
/**
 * Milliseconds between two checks of the listening connection, which may be silent for days and would not notice that the
 * network dropped it. Checking more often would not help: an idle process rarely uses the server.
 */
export const defaultCheckMs = 60_000

/** Sets a timer that does not keep the process alive. */
const quietly = (run: () => void, ms: number): NodeJS.Timeout => setTimeout(run, ms).unref()

/** Callbacks of a listener. */
export interface ListenerCallbacks {
  /** There may be work. Also called, without a payload, whenever a notification may have been missed. */
  readonly work: (payload?: string) => void
  /** Jobs ended in other processes; `any` if notifications may have been missed. */
  readonly finished: (jobs: ReadonlyArray<JobId> | "any") => void
}

type ListenerOptions = Pick<ConnectionOptions, "schema" | "connectTimeoutMs">

/** A connection that receives notifications and reconnects when it is lost. */
export class Listener {
  listening = false
  /** Distinguishes this process's notifications from others': the id of its server process; empty without a connection. */
  mark = ""
  readonly #options: ListenerOptions
  readonly #open: () => ListeningClient
  readonly #checkMs: number
  readonly #hearing: ListenerCallbacks
  #client: ListeningClient | undefined
  #next: NodeJS.Timeout | undefined
  #retryMs = firstRetryMs
  #stopped = false
  /** Whether a worker of this process has waited for work. */
  #hasWorker = false
  /** Number of subscribers to finished jobs. */
  #askers = 0
  /** Whether this connection listens to the channel of finished jobs. */
  #listensToFinished = false

  /** `open` returns a client that is not connected yet. */
  constructor(options: ListenerOptions, open: () => ListeningClient, checkMs: number, hearing: ListenerCallbacks) {
    this.#options = options
    this.#open = open
    this.#checkMs = checkMs
    this.#hearing = hearing
  }

  start(): void {
    const client = this.#open()
    this.#client = client
    client.onLost(() => this.#lost(client))
    client.onNotification(({ channel, payload = "" }) => {
      if (channel === workChannel(this.#options)) return payload === this.mark ? undefined : this.#hearing.work(payload)
      const { jobs, mark } = readFinished(payload)
      if (mark !== this.mark) this.#hearing.finished(jobs)
    })
    void this.#listen(client).catch(() => this.#lost(client))
  }

  async #listen(client: ListeningClient): Promise<void> {
    await client.connect()
    if (client === this.#client) this.mark = String(client.processID ?? "")
    if (this.#hasWorker) await this.#askForWork(client)
    if (client !== this.#client) return
    this.#listensToFinished = false
    this.listening = true
    this.#changeFinished()
    this.#retryMs = firstRetryMs
    this.#checkLater(client)
    // Notifications sent before LISTEN were missed.
    this.#hearing.work()
  }

  /** Must be called when a worker begins to wait: a process without one is not told of work, which costs it and the server time. */
  listenToWork(): void {
    if (this.#hasWorker) return
    this.#hasWorker = true
    const client = this.#client
    // A connection that is being made listens when it is there.
    if (client === undefined || !this.listening) return
    void this.#askForWork(client).then(
      () => this.#hearing.work(),
      () => this.#lost(client),
    )
  }

  async #askForWork(client: ListeningClient): Promise<void> {
    await client.query(`LISTEN ${pg.escapeIdentifier(workChannel(this.#options))}`)
  }

  /** Subscribes to finished jobs until the returned function is called. The connection listens only while there are subscribers. */
  subscribeFinished(): () => void {
    this.#askers += 1
    this.#changeFinished()
    return () => {
      this.#askers -= 1
      this.#changeFinished()
    }
  }

  #changeFinished(): void {
    const client = this.#client
    if (client === undefined || !this.listening) return
    void this.#askForFinished(client).catch(() => this.#lost(client))
  }

  async #askForFinished(client: ListeningClient): Promise<void> {
    const wanted = this.#askers > 0
    if (wanted === this.#listensToFinished) return
    this.#listensToFinished = wanted
    const channel = pg.escapeIdentifier(finishedChannel(this.#options))
    const lock = inSchema(finishedLock, this.#options.schema)
    // Sent together, so that a later change cannot come in between.
    await Promise.all(
      (wanted
        ? [`SELECT pg_advisory_lock_shared(${lock})`, `LISTEN ${channel}`]
        : [`SELECT pg_advisory_unlock_shared(${lock})`, `UNLISTEN ${channel}`]
      ).map((statement) => client.query(statement)),
    )
    // Jobs that ended before LISTEN were missed.
    if (wanted) this.#hearing.finished("any")
  }

  #checkLater(client: ListeningClient): void {
    this.#next = quietly(() => {
      // Without an answer in time, the connection receives nothing either.
      this.#next = quietly(() => this.#lost(client), this.#options.connectTimeoutMs)
      void this.#check(client).catch(() => this.#lost(client))
    }, this.#checkMs)
  }

  async #check(client: ListeningClient): Promise<void> {
    await client.query("SELECT")
    if (client !== this.#client) return
    clearTimeout(this.#next)
    this.#checkLater(client)
  }

  #lost(client: ListeningClient): void {
    if (client !== this.#client) return
    this.#client = undefined
    this.mark = ""
    this.listening = false
    clearTimeout(this.#next)
    // The server may be gone, so do not wait for a goodbye.
    client.cutOff()
    if (this.#stopped) return
    // Workers that rely on notifications must poll again.
    this.#hearing.work()
    this.#hearing.finished("any")
    this.#next = quietly(() => this.start(), this.#retryMs)
    this.#retryMs = Math.min(2 * this.#retryMs, longestRetryMs)
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#next)
    const client = this.#client
    this.#client = undefined
    this.mark = ""
    this.listening = false
    if (client !== undefined) client.cutOff()
  }
}
