import pg from "pg"
import type { JobId } from "@kiln/core/domain"
import { clientConfig, type ConnectionOptions, cutOff } from "../Connections.ts"

/** A plain name, see `connectionOptions`: no longer than leaves room for what stands before it in the 63 bytes of a name. */
interface InSchema {
  readonly schema: string
}

/** One channel for each schema of a database; there may be work. The payload is the sender's mark, by which it knows its own. */
export const workChannel = ({ schema }: InSchema): string => `kiln_${schema}`

/** Jobs that ended, see `FinishedJobs.ts`. No schema has a dot in its name, so no two channels are the same. */
export const finishedChannel = ({ schema }: InSchema): string => `kiln.${schema}`

/** Bytes of one notification; the server takes fewer than 8,000. */
const mostBytes = 7_900
/** Jobs one round tells of by their ids. Beyond that, whoever waits for one has to look. */
const mostJobs = 2_000

/** The payload of a notification: the sender's mark, then ids, or a star for any. */
const text = (mark: string, jobs: string): string => `${mark} ${jobs}`

export const readFinished = (
  payload: string,
): { readonly mark: string; readonly jobs: ReadonlyArray<JobId> | "any" } => {
  const [mark = "", jobs = "*"] = payload.split(" ", 2)
  return { mark, jobs: jobs === "*" ? "any" : jobs.split(",").filter(isJobId) }
}

const isJobId = (id: string): id is JobId => id.startsWith("job_")

/** Jobs that ended in this process, until they are told to others. */
export class FinishedJobs {
  #jobs = new Set<JobId>()
  #tooMany = false

  add(jobs: ReadonlyArray<JobId>): void {
    for (const id of jobs) {
      if (this.#jobs.size >= mostJobs) this.#tooMany = true
      else this.#jobs.add(id)
    }
  }

  /** Everything that was added since the last time, as payloads. */
  take(mark: string): ReadonlyArray<string> {
    const [jobs, tooMany] = [this.#jobs, this.#tooMany]
    this.#jobs = new Set()
    this.#tooMany = false
    return tooMany ? [text(mark, "*")] : payloadsOf(mark, jobs)
  }
}

const payloadsOf = (mark: string, jobs: ReadonlySet<JobId>): ReadonlyArray<string> => {
  const payloads: Array<string> = []
  let ids = ""
  for (const id of jobs) {
    const longer = ids === "" ? id : `${ids},${id}`
    if (Buffer.byteLength(text(mark, longer)) > mostBytes) {
      payloads.push(text(mark, ids))
      ids = id
    } else ids = longer
  }
  return ids === "" ? payloads : [...payloads, text(mark, ids)]
}

/** Milliseconds until a listening connection that was lost is made again: soon, then less and less often. */
const firstRetryMs = 100
const longestRetryMs = 5_000
/**
 * Milliseconds between two questions whether the listening connection still hears: it may have nothing to hear for days, and
 * of a network that has forgotten it, it would never know. Meanwhile this process looks for work seldom, which is why it need
 * not be asked more often either: an idle process leaves the server alone.
 */
export const defaultCheckMs = 60_000

/** What a listener tells. */
export interface Hearing {
  /** There may be work; also whenever something may have been missed. */
  readonly work: () => void
  /** Jobs ended in other processes; `any` where something may have been missed. */
  readonly finished: (jobs: ReadonlyArray<JobId> | "any") => void
}

/** A connection that hears of notifications, made anew when it is lost. */
export class Listener {
  listening = false
  readonly #options: ConnectionOptions
  readonly #checkMs: number
  readonly #hearing: Hearing
  #client: (pg.Client & { readonly processID?: number | null }) | undefined
  #next: NodeJS.Timeout | undefined
  #retryMs = firstRetryMs
  #stopped = false
  /** How many want to hear of jobs that ended. */
  #askers = 0
  /** Whether the server tells this connection of them. */
  #listensToFinished = false

  constructor(options: ConnectionOptions, checkMs: number, hearing: Hearing) {
    this.#options = options
    this.#checkMs = checkMs
    this.#hearing = hearing
  }

  /** Tells this process's notifications from those of others: its server process is nobody else's. */
  get mark(): string {
    return String(this.#client?.processID ?? "")
  }

  start(): void {
    const client = new pg.Client({
      ...clientConfig(this.#options, "kiln wake-up"),
      // Who begins or ceases to listen does not wait for a question that is under way.
      pipeline: true,
    })
    this.#client = client
    // More than one error may come of one connection, and the end after it.
    client.on("error", () => this.#lost(client))
    client.on("end", () => this.#lost(client))
    client.on("notification", ({ channel, payload = "" }) => {
      if (channel === workChannel(this.#options)) return payload === this.mark ? undefined : this.#hearing.work()
      const { jobs, mark } = readFinished(payload)
      if (mark !== this.mark) this.#hearing.finished(jobs)
    })
    void this.#listen(client).catch(() => this.#lost(client))
  }

  async #listen(client: pg.Client): Promise<void> {
    await client.connect()
    await client.query(`LISTEN ${pg.escapeIdentifier(workChannel(this.#options))}`)
    if (client !== this.#client) return
    this.#listensToFinished = false
    this.listening = true
    this.#changeFinished()
    this.#retryMs = firstRetryMs
    this.#checkLater(client)
    // What was said meanwhile was not heard.
    this.#hearing.work()
  }

  /** One more wants to hear of jobs that ended, until it says otherwise. The server tells of them only while somebody does. */
  hearFinished(): () => void {
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

  async #askForFinished(client: pg.Client): Promise<void> {
    const wanted = this.#askers > 0
    if (wanted === this.#listensToFinished) return
    this.#listensToFinished = wanted
    await client.query(`${wanted ? "LISTEN" : "UNLISTEN"} ${pg.escapeIdentifier(finishedChannel(this.#options))}`)
    // Nor was what ended meanwhile.
    if (wanted) this.#hearing.finished("any")
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
    this.#hearing.work()
    this.#hearing.finished("any")
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
