import type { Engine, Payload } from "./Engine.ts"

interface Connected {
  readonly waitUntilReady: () => Promise<unknown>
}

/** The part of BullMQ 6.7 that is used here. */
interface BullMq {
  readonly createPostgresBackend: unknown
  readonly withBackend: (backend: unknown) => {
    readonly Queue: new (
      name: string,
      options: object,
    ) => Connected & {
      readonly add: (name: string, data: Payload) => Promise<unknown>
      readonly addBulk: (jobs: ReadonlyArray<{ readonly name: string; readonly data: Payload }>) => Promise<unknown>
      readonly getJobCounts: (...states: ReadonlyArray<string>) => Promise<Readonly<Record<string, number>>>
    }
    readonly Worker: new (
      name: string,
      run: (job: { readonly data: Payload }) => Promise<void>,
      options: object,
    ) => Connected & { readonly run: () => Promise<void>; readonly on: (event: string, listener: unknown) => unknown }
  }
}

/** On Postgres; finished jobs are kept, as is its default. */
export const bullmq: Engine = {
  open: async ({ onStart, place, slots = 100 }) => {
    const name: string = "bullmq"
    const { createPostgresBackend, withBackend } = (await import(name)) as BullMq
    const { Queue, Worker } = withBackend(createPostgresBackend)
    const options = { connection: { connectionString: place, max: 20, migrate: true } }
    const queue = new Queue("noop", options)
    await queue.waitUntilReady()
    const start = () => {
      const run = ({ data }: { readonly data: Payload }) => Promise.resolve(onStart(data))
      const worker = new Worker("noop", run, { ...options, concurrency: slots, autorun: false })
      worker.on("error", console.error)
      void worker.run()
      return worker.waitUntilReady()
    }
    return {
      add: (payload) => queue.add("noop", payload),
      addMany: async (payloads) => {
        for (let from = 0; from < payloads.length; from += 5_000) {
          await queue.addBulk(payloads.slice(from, from + 5_000).map((data) => ({ name: "noop", data })))
        }
      },
      start,
      isEmpty: async () =>
        Object.values(await queue.getJobCounts("waiting", "prioritized", "active", "delayed")).every((n) => n === 0),
    }
  },
}
