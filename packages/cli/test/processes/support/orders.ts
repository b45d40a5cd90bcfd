import { setTimeout } from "node:timers/promises"
import { createEngine, jobKind } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { memoryBlobs } from "@kiln/testing"
import { z } from "zod"

const priced = { price: "things", meters: ["things"], maxUsage: () => ({ things: 1 }) } as const

/** Submitted with the result of an order. */
const mail = jobKind({
  ...priced,
  name: "mail",
  request: z.object({ n: z.int() }),
  run: async () => ({ output: {}, usage: { things: 1 } }),
})

/** Every tenth order fails for good, and every seventh needs a second attempt. All of them have called `submitWith` before. */
const order = jobKind({
  ...priced,
  name: "order",
  request: z.object({ n: z.int() }),
  output: z.object({ mails: z.array(z.string()) }),
  run: async ({ attempt, engine, failure, request: { n } }) => {
    const first = await engine.submitWith("first", mail, { n })
    await setTimeout(20)
    const second = await engine.submitWith("second", mail, { n }, { delayMs: 50 })
    if (n % 10 === 9) throw failure("content_rejected")
    if (n % 7 === 6 && attempt === 1) throw new Error("once more")
    return { output: { mails: [first.id, second.id] }, usage: { things: 1 } }
  },
})

/** Opens an engine of orders. Its leases end soon after a kill, and no number of kills ends a job. */
export const openOrders = (place: string, worker: boolean) =>
  createEngine({
    store: place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place }),
    blobs: memoryBlobs(),
    kinds: [order, mail],
    mode: "live",
    autoStart: worker,
    log: false,
    settings: {
      concurrency: 8,
      leaseDurationMs: 2_000,
      attempts: {
        maxFailures: 3,
        maxLostWorkers: 1_000,
        backoffBaseMs: 10,
        backoffMaxMs: 20,
        retryAfterMaxMs: 100,
      },
    },
  })

// Run as a program, it says that it works on orders, and does until it is killed.
const [program, place] = process.argv.slice(1)
if (program === import.meta.filename && place !== undefined) {
  await openOrders(place, true)
  process.stdout.write("ready\n")
}
