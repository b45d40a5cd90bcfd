import type { Client } from "pg"
import type { Beside, Drain, Submission } from "../child/Task.ts"

/** The request of a job: when its submission began, in nanoseconds of the machine's monotonic clock. */
export interface Payload {
  readonly at: number
}

export interface OpenOptions {
  /** The URL of a database, or the path of a database file. */
  readonly place: string
  /** The directory of the built kiln packages. */
  readonly kiln: string
  /** Called when the handler of a job begins. */
  readonly onStart: (payload: Payload) => void | Promise<void>
  /** How many jobs run at once, where that is measured. */
  readonly slots?: number | undefined
  /** How jobs are submitted or limited, if not plainly. Other engines ignore it. */
  readonly as?: Submission | Drain | Beside | undefined
}

/** An opened engine, as a program would use it. It is never closed: its process ends. */
export interface Opened {
  /** Adds one job; resolves once it is as durable as this engine makes it. */
  readonly add: (payload: Payload) => unknown
  /** Adds many jobs by the fastest documented call. */
  readonly addMany: (payloads: ReadonlyArray<Payload>) => Promise<unknown>
  /** Adds jobs in a transaction that the caller has begun on this client, by the fastest documented call. Absent where that is not measured. */
  readonly addInTransaction?: (client: Client, payloads: ReadonlyArray<Payload>) => Promise<unknown>
  /** Starts to run jobs. */
  readonly start: () => unknown
  /** Returns whether all jobs are finished in the store, and not only run. */
  readonly isEmpty: () => Promise<boolean>
}

/** A job engine in its best documented configuration. */
export interface Engine {
  readonly open: (options: OpenOptions) => Promise<Opened>
}

/** Reads the machine's monotonic clock, which all of its processes share, in nanoseconds. */
export const now = (): number => Number(process.hrtime.bigint())
