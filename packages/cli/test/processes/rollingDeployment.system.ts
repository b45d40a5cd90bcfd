import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { KilnProcess, serve, startLimitMs, temporaryDirectory, until } from "@kiln/service-lab"
import { Client } from "../crash/support/Client.ts"
import { type LabStore, makeStores } from "../crash/support/LabStore.ts"
import { seedStores } from "../crash/support/seed.ts"
import { patience } from "./support/Fleet.ts"

/** Workers are replaced while customers order: processes that answer requests and processes that run jobs, apart. */

const pauseMs = 10

/** Submits a live job every `pauseMs`, whatever became of those before, until it is stopped. */
const submitSteadily = (client: Client) => {
  const answers: Array<Promise<{ readonly status: number; readonly text: string }>> = []
  const stopping = new AbortController()
  const submit = async () => {
    const response = await client.post("/v1/audio/speech", { input: "x" })
    return { status: response.status, text: await response.text() }
  }
  const submitting = (async () => {
    const begun = performance.now()
    while (!stopping.signal.aborted) {
      // As many as are due by now: a pause that took longer than asked for is made up for.
      while (answers.length * pauseMs <= performance.now() - begun) answers.push(submit())
      await sleep(pauseMs)
    }
  })()
  return {
    answers: async () => {
      stopping.abort()
      await submitting
      return Promise.all(answers)
    },
  }
}

const stopAll = async (workers: ReadonlyArray<KilnProcess>) => {
  for (const worker of workers) worker.kill("SIGTERM")
  for (const worker of workers) expect((await worker.ended()).exit).toBe(0)
}

/** What a store says of every job, once no more of them are unfinished. */
const finishedRows = (store: LabStore) =>
  until(async () => {
    const rows = await store.rows()
    if (rows.jobs.every(({ status }) => status === "done" || status === "failed")) return rows
    await sleep(250)
    return undefined
  }, 90_000)

describe("while workers are replaced and 100 live jobs a second are submitted", () => {
  for (const { makeStore, name } of makeStores)
    it(`none is refused or lost, on ${name}`, { timeout: 2 * patience.timeout }, async () => {
      using directory = temporaryDirectory()
      const dataDirectory = join(directory.path, "data")
      mkdirSync(dataDirectory)
      const store = await makeStore(dataDirectory)
      await using cleanUp = new AsyncDisposableStack()
      cleanUp.defer(() => store.dispose())
      const keys = await Effect.runPromise(Effect.provide(seedStores, store.layer))
      const env = {
        ...store.env,
        KILN_DATA_DIR: dataDirectory,
        KILN_RATE_LIMITS: "off",
        KILN_QUEUE_CAP: "0",
        KILN_PROVIDER: "sandbox",
      }
      const startWorker = async () => {
        const worker = cleanUp.use(new KilnProcess(["serve"], { ...env, KILN_ROLE: "worker" }))
        await worker.says(/the worker is running/, "stderr", startLimitMs)
        return worker
      }
      const api = cleanUp.use(await serve({ ...env, KILN_ROLE: "api" }))
      const client = new Client(api.listening.url, keys.live.key)
      const [one, other] = await Promise.all([startWorker(), startWorker()])
      const submitting = submitSteadily(client)
      // One after the other, and then, as a careless deployment does, all of them at once.
      await stopAll([one])
      const second = await startWorker()
      await stopAll([other])
      await stopAll([second])
      await sleep(2_000)
      await startWorker()
      await sleep(2_000)
      const answers = await submitting.answers()
      const refused = answers.filter(({ status }) => status !== 202)
      expect(refused).toEqual([])
      const accepted = answers.map(({ text }) => (JSON.parse(text) as { readonly id: string }).id).toSorted()
      expect(accepted.length).toBeGreaterThan(300)
      const { charges, jobs } = await finishedRows(store)
      expect(jobs.map(({ id }) => id).toSorted()).toEqual(accepted)
      expect(jobs.filter(({ status }) => status !== "done")).toEqual([])
      expect(charges.map(({ jobId }) => jobId).toSorted()).toEqual(accepted)
    })
})
