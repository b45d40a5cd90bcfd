import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine } from "@kiln/core"
import Database from "better-sqlite3"
import { fulfillKind, type Order, OrderTable } from "../Orders.ts"
import { Payments } from "../Payments.ts"

export const temporaryDirectory = () => {
  const path = mkdtempSync(join(tmpdir(), "kiln-orders-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

/** Starts the service as a process. `killAt` kills it at the commit of an order. */
export const startService = async (directory: string, paymentsUrl: string, killAt?: string) => {
  const preloaded = killAt === undefined ? [] : ["--import", join(import.meta.dirname, "killAtCommit.ts")]
  const main = join(import.meta.dirname, "../main.ts")
  const child = spawn(process.execPath, ["--conditions=@kiln/source", ...preloaded, main, directory, paymentsUrl], {
    env: { ...process.env, ...(killAt !== undefined && { KILL_AT_COMMIT: killAt }) },
    stdio: ["ignore", "pipe", "ignore"],
  })
  const exited = once(child, "exit")
  const [line] = await Promise.race([once(child.stdout, "data"), exited])
  const url = String(line).trim().replace("listening on ", "")
  return {
    exited,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    place: async (id: string, body: object = { amount: 1_200, card: "valid" }) => {
      const headers = { "content-type": "application/json" }
      const response = await fetch(`${url}/orders/${id}`, { method: "PUT", headers, body: JSON.stringify(body) })
      return { status: response.status, order: (await response.json()) as Order }
    },
    settled: async (id: string): Promise<Order> => {
      for (;;) {
        const order: Order = await (await fetch(`${url}/orders/${id}`)).json()
        if (order.status !== "placed") return order
        await setTimeout(50)
      }
    },
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL")
      await exited
    },
  }
}

/** Reads the orders and their jobs from the file of a service that does not run. */
export const readShop = async (directory: string) => {
  const path = join(directory, "shop.db")
  const db = new Database(path)
  const kind = fulfillKind(new OrderTable(db), new Payments("http://127.0.0.1:9"))
  const blobs = fileBlobs({ directory: join(directory, "blobs") })
  await using engine = await createEngine({ store: sqliteStore({ path }), blobs, kinds: [kind], worker: false })
  const rows = db.prepare("SELECT id, job_id FROM orders ORDER BY id").all([]) as Array<{ id: string; job_id: string }>
  const jobs = await Promise.all(rows.map(({ job_id }) => engine.get(job_id)))
  const counts = await engine.operator.count()
  db.close()
  return {
    orders: rows.map(({ id }) => id),
    /** The order of each order's job. */
    jobsOf: jobs.map(({ metadata }) => metadata["orderId"]),
    statuses: jobs.map(({ status }) => status),
    jobs: counts.reduce((sum, { count }) => sum + count, 0),
  }
}
