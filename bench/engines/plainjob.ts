import Database from "better-sqlite3"
import type { Engine, Payload } from "./Engine.ts"

/** The part of plainjob 0.0.14 that is used here. */
interface Plainjob {
  readonly better: (database: unknown) => unknown
  readonly defineQueue: (options: { readonly connection: unknown; readonly logger: unknown }) => {
    readonly add: (type: string, data: Payload) => unknown
    readonly addMany: (type: string, data: ReadonlyArray<Payload>) => unknown
    readonly countJobs: (options: { readonly status: number }) => number
  }
  readonly defineWorker: (
    type: string,
    run: (job: { readonly data: string }) => void,
    options: { readonly queue: unknown; readonly pollIntervall: number; readonly logger: unknown },
  ) => { readonly start: () => Promise<void> }
}

const silent = { error: console.error, warn: console.error, info: () => {}, debug: () => {} }
const pending = 0
const processing = 1

/** plainjob sets `synchronous` to NORMAL, under which a power failure loses the newest jobs; `FULL` is set after it. */
export const plainjob = (synchronous: "NORMAL" | "FULL"): Engine => ({
  open: async ({ onStart, place }) => {
    const name: string = "plainjob"
    const { better, defineQueue, defineWorker } = (await import(name)) as Plainjob
    const database = new Database(place)
    const queue = defineQueue({ connection: better(database), logger: silent })
    database.pragma(`synchronous = ${synchronous}`)
    const options = { queue, pollIntervall: 1, logger: silent }
    const worker = defineWorker("noop", ({ data }) => void onStart(JSON.parse(data) as Payload), options)
    return {
      add: (payload) => queue.add("noop", payload),
      addMany: (payloads) => Promise.resolve(queue.addMany("noop", payloads)),
      start: () => void worker.start(),
      isEmpty: () =>
        Promise.resolve(queue.countJobs({ status: pending }) + queue.countJobs({ status: processing }) === 0),
    }
  },
})
