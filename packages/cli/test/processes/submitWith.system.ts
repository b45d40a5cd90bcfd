import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { openOrders } from "./support/orders.ts"

const program = join(import.meta.dirname, "support/orders.ts")
const orders = 60
const kills = 5

/** Starts a worker, kills it some times while it works, and lets the last one work until it is disposed. */
const killedWorker = (place: string) => {
  const over = new AbortController()
  const start = () =>
    spawn(process.execPath, ["--conditions=@kiln/source", program, place], { stdio: ["ignore", "pipe", "inherit"] })
  let worker = start()
  const kill = async () => {
    await once(worker.stdout, "data", over)
    await setTimeout(500 * Math.random(), undefined, over)
    worker.kill("SIGKILL")
    worker = start()
  }
  const killing = (async () => {
    for (let n = 0; n < kills; n++) await kill()
  })()
  return {
    killing,
    [Symbol.dispose]: () => {
      over.abort()
      killing.catch(() => undefined)
      worker.kill("SIGKILL")
    },
  }
}

it.each(["sqlite", "postgres"])(
  "the jobs of an order exist exactly if it is done, and are charged once, whenever its workers are killed, on %s",
  async (store) => {
    using directory = temporaryDirectory()
    await using database = store === "postgres" ? await freshDatabase() : null
    const place = database?.url ?? join(directory.path, "kiln.db")
    await using engine = await openOrders(place, false)
    const project = "shop"
    await engine.operator.setPrice({ name: "things", currency: "usd", unitAmounts: { things: "0.5" } })
    await engine.operator.setSpendCap({ project }, { currency: "usd", day: "1000" })
    const submitted = await engine.submitMany(
      "order",
      Array.from({ length: orders }, (_, n) => ({ request: { n }, project })),
    )
    const ids = submitted.flatMap(({ job }) => job?.id ?? [])
    expect(ids).toHaveLength(orders)
    {
      using one = killedWorker(place)
      using other = killedWorker(place)
      await Promise.all(ids.slice(0, 3).map((id) => engine.operator.cancel(id).catch(() => undefined)))
      await Promise.all([one.killing, other.killing])
      await until(async () => {
        const counts = await engine.operator.count()
        return counts.every(({ status }) => status === "done" || status === "failed") || undefined
      }, 120_000)
    }
    const ended = await Promise.all(ids.map((id) => engine.get({ id, kind: "order" as const })))
    const named = ended.flatMap((job) => (job.status === "done" ? (job.output?.mails ?? []) : []))
    const done = ended.filter(({ status }) => status === "done").length
    expect(done).toBeGreaterThanOrEqual(orders - orders / 10 - 3)
    const mails: Array<string> = []
    for await (const { id } of engine.operator.listAll({ kind: "mail" })) mails.push(id)
    expect(mails.toSorted()).toEqual(named.toSorted())
    expect(named).toHaveLength(2 * done)
    expect((await engine.operator.count()).filter(({ kind }) => kind === "mail")).toEqual([
      { kind: "mail", mode: "live", status: "done", count: 2 * done },
    ])
    // Each order and each mail is charged once, and nothing is reserved any more.
    expect(await engine.operator.listSpending()).toMatchObject([{ reserved: "0", day: String((3 * done) / 2) }])
  },
)
