import { DatabaseSync } from "node:sqlite"
import { expect, it } from "vitest"
import { temporaryDirectory } from "@kiln/service-lab"
import { liveSpeech } from "../support/liveSpeech.ts"
import { speechGate } from "../support/speechGate.ts"
import { databaseOf } from "./support/embedded.ts"
import { readRecords } from "./support/Records.ts"
import { expectUnavailable, startService } from "./support/Service.ts"

/** Holds the write lock of a service's database until it is disposed, as a backup or a person with a shell may. */
const lock = (directory: string) => {
  const database = new DatabaseSync(databaseOf(directory), { timeout: 5_000 })
  database.exec("BEGIN IMMEDIATE")
  return {
    [Symbol.dispose]: () => {
      database.exec("ROLLBACK")
      database.close()
    },
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
const msOf = async (work: Promise<unknown>): Promise<number> => {
  const from = performance.now()
  await work
  return performance.now() - from
}

/**
 * How long `/healthz` took, in milliseconds, asked again and again: what 98 of 100 answers stayed below. How long that is
 * without a lock is the machine's to say.
 */
const watchHealth = (url: string) => {
  const times: Array<number> = []
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      times.push(await msOf(fetch(`${url}/healthz`).then((response) => response.text())))
      await pause(5)
    }
  })()
  return async (): Promise<number> => {
    over.abort()
    await watching
    expect(times.length).toBeGreaterThan(20)
    return times.toSorted((a, b) => a - b)[Math.floor(0.98 * (times.length - 1))] ?? Infinity
  }
}

const healthWithoutLock = async (url: string): Promise<number> => {
  const stop = watchHealth(url)
  await pause(1_000)
  return stop()
}

it("a lock held by another process: writers wait, readers do not, and the event loop keeps running", async () => {
  using data = temporaryDirectory()
  await using service = await startService(data.path)
  const { api } = service
  const done = await api.finished(await api.createSpeech("Before."))
  const usual = await healthWithoutLock(service.url)
  let waiting: Promise<ReadonlyArray<Response>>
  const stop = watchHealth(service.url)
  {
    using _ = lock(data.path)
    waiting = Promise.all(Array.from({ length: 20 }, (_, n) => api.speak(`Number ${n}.`)))
    await pause(100)
    // Before the lock is let go.
    expect(await msOf(api.job(done.id))).toBeLessThan(1_500)
    await pause(2_000)
  }
  const answers = await waiting
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202))
  expect(await stop()).toBeLessThan(100 + usual)
  for (const answer of answers) expect((await api.finished((await answer.json()).id)).status).toBe("done")
})

it("a permanent lock: 503 after about five seconds, no lease is lost, and everything continues afterwards", async () => {
  using data = temporaryDirectory()
  using gate = speechGate()
  const { environment, key } = await liveSpeech(data.path)
  await using service = await startService(data.path, { ...environment, KILN_LEASE_SECONDS: "12" }, key)
  const { api } = service
  const running = await api.createSpeech(gate.text)
  const queued = await api.createSpeech("Beside it.")
  await api.finished(queued)
  const usual = await healthWithoutLock(service.url)
  const stop = watchHealth(service.url)
  {
    using _ = lock(data.path)
    gate.open()
    const refused = api.speak("During.")
    // Long enough for several heartbeats, and for the end of the job, to find the lock.
    expect(await msOf(refused)).toBeGreaterThan(4_000)
    await expectUnavailable(await refused)
    await pause(1_500)
  }
  expect(await stop()).toBeLessThan(100 + usual)
  expect((await api.finished(running)).status).toBe("done")
  expect((await api.finished(await api.createSpeech("After."))).status).toBe("done")
  await service.kiln.crash()
  for (const job of readRecords(data.path)?.jobs ?? [])
    expect(job).toMatchObject({ status: "done", attempts: 1, failures: 0, lost_workers: 0 })
})
