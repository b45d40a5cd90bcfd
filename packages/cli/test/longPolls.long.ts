import { readFileSync } from "node:fs"
import { Agent, request } from "node:http"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { setTimeout as sleep } from "node:timers/promises"
import { KilnProcess, serve, temporaryDirectory } from "@kiln/service-lab"
import { freshDatabase, readRows } from "@kiln/postgres-lab"
import { describe, expect, it } from "vitest"

const polls = 2_000
/** The limits of what they cost. */
const maxMib = 50
const maxBusyPercent = 4
const maxLateMs = 100

/** Seconds until the first job ends, and from there to the last end. */
const firstEndSeconds = 30
const endingSeconds = 20
/** Milliseconds until connections and garbage of a burst are settled. */
const settleMs = 5_000
const idleMs = 5_000

const residentKib = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1])
/** Ticks of processor time, 100 a second. */
const cpuTicks = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  return Number(fields[11]) + Number(fields[12])
}

/** Percent of a core that the process uses. */
const busyPercent = async (pid: number): Promise<number> => {
  const ticks = cpuTicks(pid)
  await sleep(idleMs)
  return ((cpuTicks(pid) - ticks) * 1_000) / idleMs
}

const figure = (text: string): void => void process.stdout.write(`figure: ${text}\n`)

/** One request on a connection of its own. */
const call = (
  agent: Agent,
  url: string,
  key: string,
  { body, ...headers }: { readonly body?: string; readonly prefer?: string; readonly "idempotency-key"?: string },
) =>
  new Promise<{ readonly at: number; readonly body: { readonly id: string; readonly status: string } }>(
    (resolve, reject) => {
      const method = body === undefined ? "GET" : "POST"
      const all = { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers }
      request(url, { agent, method, headers: all }, (response) => {
        let text = ""
        response.setEncoding("utf8").on("data", (piece: string) => (text += piece))
        response.on("end", () => resolve({ at: Date.now(), body: JSON.parse(text) }))
      })
        .on("error", reject)
        .end(body)
    },
  )

/** When each job ended, in Unix milliseconds of the store. */
type Ends = () => Promise<ReadonlyArray<{ readonly id: string; readonly finished_at: number | string }>>

const measure = async (store: string, url: string, key: string, pid: number, ends: Ends) => {
  const few = new Agent({ keepAlive: true, maxSockets: 32 })
  const many = new Agent({ keepAlive: true })
  const create = (n: number) =>
    call(few, `${url}/v1/audio/speech`, key, {
      body: JSON.stringify({ input: `sandbox:delay:${firstEndSeconds + (n * endingSeconds) / polls}` }),
      "idempotency-key": `k${n}`,
    })
  const ids = (await Promise.all(Array.from({ length: polls }, (_, n) => create(n)))).map(({ body }) => body.id)
  // What a process needs once it has answered polls at all is no cost of those that it holds.
  await Promise.all(ids.map((id) => call(few, `${url}/v1/jobs/${id}`, key, {})))
  await sleep(settleMs)
  const busyBefore = await busyPercent(pid)
  const before = residentKib(pid)
  const answeredAt = new Map<string, number>()
  const waiting = Promise.all(
    ids.map(async (id, n) => {
      while (true) {
        // Independent clients: they do not all poll again at the same moment.
        const { at, body } = await call(many, `${url}/v1/jobs/${id}`, key, { prefer: `wait=${15 + (n % 16)}` })
        if (body.status === "done") return void answeredAt.set(id, at)
      }
    }),
  )
  await sleep(settleMs)
  const grownMib = (residentKib(pid) - before) / 1_024
  const busyWhile = await busyPercent(pid)
  await waiting
  few.destroy()
  many.destroy()
  const late = (await ends())
    .map(({ finished_at, id }) => (answeredAt.get(id) ?? Infinity) - Number(finished_at))
    .toSorted((one, other) => one - other)
  const most = late.at(-1) ?? Infinity
  const at = (share: number) => late[Math.floor(late.length * share)]
  figure(`${store}: ${polls} polls take ${grownMib.toFixed(1)} MiB more memory`)
  figure(`${store}: the process is busy ${busyBefore.toFixed(1)} % without them, ${busyWhile.toFixed(1)} % with them`)
  figure(`${store}: answers come ${at(0.5)} ms after the end, p99 ${at(0.99)} ms, the last one ${most} ms`)
  return {
    ended: late.length,
    isSmall: grownMib < maxMib,
    isIdle: busyWhile - busyBefore < maxBusyPercent,
    isPrompt: most < maxLateMs,
  }
}
const good = { ended: polls, isSmall: true, isIdle: true, isPrompt: true }

const settings = { KILN_FIRST_KEY: "print", KILN_RATE_LIMITS: "off", KILN_QUEUE_CAP: "0" }

describe("2,000 held polls on one process", () => {
  it("on SQLite", { timeout: 240_000 }, async () => {
    using directory = temporaryDirectory()
    await using kiln = await serve({ ...settings, KILN_DATA_DIR: directory.path })
    const { first_key, url } = kiln.listening
    const measured = await measure("SQLite", url, first_key?.key ?? "", kiln.pid, () => {
      const database = new DatabaseSync(join(directory.path, "kiln.db"), { readOnly: true })
      const rows = database.prepare("SELECT id, finished_at FROM kiln_jobs").all()
      database.close()
      return Promise.resolve(rows.map((row) => ({ id: String(row["id"]), finished_at: Number(row["finished_at"]) })))
    })
    expect(measured).toEqual(good)
  })

  it("on Postgres, with jobs that another process ends", { timeout: 240_000 }, async () => {
    using directory = temporaryDirectory()
    await using database = await freshDatabase()
    const environment = {
      ...settings,
      KILN_DATA_DIR: directory.path,
      DATABASE_URL: database.url,
      KILN_BLOBS: "postgres",
    }
    await using api = await serve({ ...environment, KILN_ROLE: "api" })
    const { first_key, url } = api.listening
    await using worker = new KilnProcess(["serve", "--json"], { ...environment, KILN_ROLE: "worker" })
    const measured = await measure("Postgres", url, first_key?.key ?? "", api.pid, async () => {
      const [rows] = await readRows<[Awaited<ReturnType<Ends>>]>(database.url, [
        'SELECT jobs.id, finished_at FROM "kiln".jobs JOIN "kiln".results ON job_seq = jobs.seq',
      ])
      return rows
    })
    expect(worker.pid).not.toBe(api.pid)
    expect(measured).toEqual(good)
  })
})
