import { createEngine, jobKind } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { memoryBlobs } from "@kiln/testing"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import pg from "pg"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openPodcasts } from "./fixtures/podcast.ts"

const script = join(import.meta.dirname, "fixtures/podcastWorker.ts")

/** A process with a worker, and the lines that it has printed. */
class PodcastWorker implements AsyncDisposable {
  readonly #child: ChildProcess
  text = ""

  constructor(place: string) {
    this.#child = spawn(process.execPath, ["--conditions=@kiln/source", script, place], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    this.#child.stdout?.on("data", (chunk: Buffer) => (this.text += chunk.toString()))
  }

  get lines(): ReadonlyArray<string> {
    return this.text.split("\n").filter((line) => line !== "" && line !== "ready")
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, "exit")
    this.#child.kill("SIGKILL")
    await exited
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill()
  }
}

const patience = { timeout: 120_000 }

describe.each(["sqlite", "postgres"])("podcasts that are approved while no worker runs, on %s", (store) => {
  it("go on after each kill -9, and repeat nothing that was finished", async () => {
    using directory = temporaryDirectory()
    await using database = store === "postgres" ? await freshDatabase() : null
    const place = database?.url ?? join(directory.path, "kiln.db")
    await using engine = await openPodcasts(place, { autoStart: false })
    const titles = ["a", "b", "c"]
    const jobs = await Promise.all(titles.map((title) => engine.submit("podcast", { title, parts: 20 })))
    const waitFor = async (reason: string) => {
      for (const job of jobs)
        await expect
          .poll(async () => (await engine.operator.waitingFor(job)).map((why) => why.reason), patience)
          .toContain(reason)
    }
    const lines: Array<string> = []
    const until = async (worker: PodcastWorker, reached: () => Promise<void> | void) => {
      await reached()
      await worker.kill()
      lines.push(...worker.lines)
    }
    await using first = new PodcastWorker(place)
    await until(first, () => waitFor("signal"))
    // Nothing runs now. One signal is sent in a transaction, where the store has them for this client.
    for (const job of jobs.slice(1))
      expect(await engine.signal(job, "approved", { by: "Ada" })).toEqual({ isFirst: true })
    if (database === null) await engine.signal(jobs[0] ?? "", "approved", { by: "Ada" })
    else {
      const client = new pg.Client({ connectionString: database.url })
      await client.connect()
      await client.query("BEGIN")
      await engine.signal(jobs[0] ?? "", "approved", { by: "Ada" }, { transaction: client as never })
      await client.query("COMMIT")
      await client.end()
    }
    await using second = new PodcastWorker(place)
    await until(second, () => expect.poll(() => second.lines.length, patience).toBeGreaterThan(10))
    await using third = new PodcastWorker(place)
    await until(third, async () => {
      for (const job of jobs)
        expect(await engine.wait(job, { timeoutMs: 120_000 })).toMatchObject({
          status: "done",
          output: { approvedBy: "Ada", parts: Array.from({ length: 20 }, (_, part) => part) },
        })
    })
    const counts = Map.groupBy(lines, (line) => line)
    for (const title of titles) expect(counts.get(`transcribe ${title}`)).toHaveLength(1)
    const calls = lines.filter((line) => line.startsWith("speech"))
    expect(new Set(calls).size).toBe(60)
    // A kill repeats at most the calls of its slots.
    expect(calls.length).toBeLessThanOrEqual(64)
  })
})

it.each([
  ["sqlite", "children"],
  ["postgres", "children"],
  ["sqlite", "prerequisites"],
  ["postgres", "prerequisites"],
])("on %s, a job goes on soon after the end of the last of its %s", async (store, awaited) => {
  using directory = temporaryDirectory()
  await using database = store === "postgres" ? await freshDatabase() : null
  const delays: Array<number> = []
  let lastEndedAt = 0
  const part = jobKind({
    name: "part",
    request: z.object({}),
    run: async () => {
      await new Promise((resolve) => setTimeout(resolve, 5 + 20 * Math.random()))
      lastEndedAt = performance.now()
      return { output: {} }
    },
  })
  const whole = jobKind({
    name: "whole",
    request: z.object({}),
    run: async ({ children }) => {
      await children(
        "parts",
        part,
        Array.from({ length: 7 }, () => ({})),
      )
      delays.push(performance.now() - lastEndedAt)
      return { output: {} }
    },
  })
  const last = jobKind({
    name: "last",
    request: z.object({}),
    run: async ({ after }) => {
      delays.push(performance.now() - lastEndedAt)
      return { output: { parts: after.length } }
    },
  })
  await using engine = await createEngine({
    store:
      database === null ? sqliteStore({ path: join(directory.path, "kiln.db") }) : postgresStore({ url: database.url }),
    blobs: memoryBlobs(),
    kinds: [whole, part, last],
    log: false,
  })
  const rounds = Number(process.env["FAN_IN_ROUNDS"] ?? 30)
  const submit = async () => {
    if (awaited === "children") return engine.submit("whole", {})
    const parts = await engine.submitMany(
      "part",
      Array.from({ length: 7 }, () => ({ request: {} })),
    )
    return engine.submit("last", {}, { after: parts.flatMap(({ job }) => job ?? []) })
  }
  for (let n = 0; n < rounds; n++)
    expect(await engine.wait(await submit(), { timeoutMs: 60_000 })).toMatchObject({ status: "done", attempts: 1 })
  const sorted = delays.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round((sorted[Math.ceil(share * sorted.length) - 1] ?? 0) * 10) / 10
  const figures = `fan-in of ${awaited} on ${store}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms of ${sorted.length}`
  if (process.env["FAN_IN_ROUNDS"] !== undefined) console.log(figures)
  expect(sorted).toHaveLength(rounds)
  // A poll would take a quarter of a second and more. The machine may be busy, so the median counts.
  expect(at(0.5), figures).toBeLessThan(200)
})
