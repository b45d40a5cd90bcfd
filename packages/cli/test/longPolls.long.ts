import { readFileSync } from "node:fs"
import { Agent, request } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import { KilnProcess, runJson, serve, temporaryDirectory } from "@kiln/service-lab"
import { freshDatabase } from "@kiln/postgres-lab"
import { describe, expect, it } from "vitest"

const polls = 2_000

const residentKib = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1])
const cpuTicks = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  return Number(fields[11]) + Number(fields[12])
}

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

const measure = async (url: string, key: string, pid: number, environment: Readonly<Record<string, string>>) => {
  const few = new Agent({ keepAlive: true, maxSockets: 32 })
  const many = new Agent({ keepAlive: true })
  const create = (n: number) =>
    call(few, `${url}/v1/audio/speech`, key, {
      body: JSON.stringify({ input: `sandbox:delay:${20 + (n % 20)}` }),
      "idempotency-key": `k${n}`,
    })
  const ids = (await Promise.all(Array.from({ length: polls }, (_, n) => create(n)))).map(({ body }) => body.id)
  await sleep(1_000)
  const before = residentKib(pid)
  const ended = new Map<string, number>()
  const waiting = Promise.all(
    ids.map(async (id) => {
      while (true) {
        const { at, body } = await call(many, `${url}/v1/jobs/${id}`, key, { prefer: "wait=30" })
        if (body.status === "done") return void ended.set(id, at)
      }
    }),
  )
  await sleep(4_000)
  const grownMib = (residentKib(pid) - before) / 1_024
  const ticks = cpuTicks(pid)
  await sleep(4_000)
  const idlePercent = (cpuTicks(pid) - ticks) / 4
  await waiting
  const late: Array<number> = []
  for (const id of ids.filter((_, n) => n % 100 === 0)) {
    const shown = (await runJson(["job", "show", id], environment)) as { readonly finished_at: string }
    // Whole seconds, so that a poll without delay is half a second late on average.
    late.push((ended.get(id) ?? Infinity) - new Date(shown.finished_at).getTime())
  }
  few.destroy()
  many.destroy()
  late.sort((one, other) => one - other)
  const median = late[Math.floor(late.length / 2)]
  console.log(JSON.stringify({ polls, grownMib, idlePercent, medianMs: median, mostMs: late.at(-1) }))
  return { grownMib, median, ended: ended.size }
}

const settings = { KILN_FIRST_KEY: "print", KILN_RATE_LIMITS: "off", KILN_QUEUE_CAP: "0" }

describe("2,000 held polls on one process", () => {
  it("on SQLite take little memory, and are answered when their jobs end", { timeout: 240_000 }, async () => {
    using directory = temporaryDirectory()
    const environment = { ...settings, KILN_DATA_DIR: directory.path }
    await using kiln = await serve(environment)
    const { first_key, url } = kiln.listening
    const { ended, grownMib, median } = await measure(url, first_key?.key ?? "", kiln.pid, environment)
    expect(ended).toBe(polls)
    expect(grownMib).toBeLessThan(85)
    // A busy machine makes it late; without a wake-up it would be seconds.
    expect(median).toBeLessThan(1_000)
  })

  it("on Postgres are answered when another process ends the jobs", { timeout: 240_000 }, async () => {
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
    const { ended, grownMib, median } = await measure(url, first_key?.key ?? "", api.pid, environment)
    expect(worker.pid).not.toBe(api.pid)
    expect(ended).toBe(polls)
    expect(grownMib).toBeLessThan(85)
    expect(median).toBeLessThan(1_000)
  })
})
