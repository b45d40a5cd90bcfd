import { Client } from "pg"
import type { Engine, Payload } from "./Engine.ts"

interface Job {
  readonly data: Payload
}

/** The part of pg-boss 12 that is used here. */
interface PgBossModule {
  readonly PgBoss: new (options: object) => {
    readonly on: (event: "error", listener: (error: unknown) => void) => unknown
    readonly start: () => Promise<unknown>
    readonly createQueue: (name: string, options: { readonly notify: boolean }) => Promise<unknown>
    readonly send: (name: string, data: Payload) => Promise<unknown>
    readonly insert: (
      name: string,
      jobs: ReadonlyArray<Job>,
      options?: { readonly db: { readonly executeSql: (text: string, values?: Array<unknown>) => Promise<unknown> } },
    ) => Promise<unknown>
    readonly work: (
      name: string,
      options: object,
      handler: (jobs: ReadonlyArray<Job>) => Promise<void>,
    ) => Promise<unknown>
  }
}

/** LISTEN and NOTIFY on, batches of 500, and no pause while batches are full. A handler that throws fails its whole batch. */
export const pgBoss: Engine = {
  open: async ({ onStart, place }) => {
    const name: string = "pg-boss"
    const { PgBoss } = (await import(name)) as PgBossModule
    const boss = new PgBoss({ connectionString: place, max: 20, useListenNotify: true })
    boss.on("error", console.error)
    await boss.start()
    await boss.createQueue("noop", { notify: true })
    const observer = new Client({ connectionString: place })
    await observer.connect()
    const work = { batchSize: 500, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }
    return {
      add: (payload) => boss.send("noop", payload),
      addMany: async (payloads) => {
        for (let from = 0; from < payloads.length; from += 5_000) {
          const chunk = payloads.slice(from, from + 5_000)
          await boss.insert(
            "noop",
            chunk.map((data) => ({ data })),
          )
        }
      },
      addInTransaction: (client, payloads) =>
        boss.insert(
          "noop",
          payloads.map((data) => ({ data })),
          { db: { executeSql: (text, values) => client.query(text, values) } },
        ),
      start: () =>
        boss.work("noop", work, async (jobs) => {
          for (const { data } of jobs) await onStart(data)
        }),
      isEmpty: async () =>
        (await observer.query("SELECT 1 FROM pgboss.job WHERE name = 'noop' AND state < 'completed' LIMIT 1"))
          .rowCount === 0,
    }
  },
}
