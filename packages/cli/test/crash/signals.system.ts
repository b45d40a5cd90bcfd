import { describe, expect, it } from "vitest"
import { expectSpokenOnce } from "./support/expectations.ts"
import { makeStores } from "./support/LabStore.ts"
import { Lab, patience } from "./support/Lab.ts"

const speakAll = (speak: () => Promise<string>, count: number) => Promise.all(Array.from({ length: count }, speak))

describe.each(makeStores)("SIGTERM under work, on $name", patience, ({ makeStore, name }) => {
  it("lets short jobs finish and exits with 0 in time", async () => {
    await using lab = await Lab.open(makeStore)
    const kiln = await lab.start({ env: { KILN_DRAIN_SECONDS: "10" } })
    const jobIds = await speakAll(() => kiln.client.speak("wait:1000"), 4)
    await Promise.all(jobIds.map((id) => lab.attemptBegun(id, 1)))
    kiln.kill("SIGTERM")
    const at = performance.now()
    expect((await kiln.ended()).exit).toBe(0)
    expect(performance.now() - at, "as soon as they are done").toBeLessThan(8_000)
    for (const id of jobIds) {
      await expectSpokenOnce(lab, id, { clients: [], lostWorkers: 0 })
      expect(lab.calls(id).map(({ event }) => event)).toEqual(["begun", "ended"])
    }
  })

  it("releases long jobs, and the next process starts them immediately", async () => {
    await using lab = await Lab.open(makeStore)
    // A lease longer than the test, so the job is found only if it is released.
    const env = { KILN_DRAIN_SECONDS: "1", KILN_LEASE_SECONDS: "60" }
    const stopped = await lab.start({ env })
    const jobIds = await speakAll(() => stopped.client.speak("hold@1"), 3)
    await Promise.all(jobIds.map((id) => lab.attemptBegun(id, 1)))
    stopped.kill("SIGTERM")
    expect((await stopped.ended()).exit).toBe(0)
    for (const job of await lab.jobs(jobIds))
      expect(job).toMatchObject({ status: "processing", held: false, failures: 0, lostWorkers: 0, attempts: 1 })

    // Its first look must find them: the next one is far away.
    const next = await lab.start({ env, engine: { pollIntervalMs: 30_000 } })
    const readyAt = Date.now()
    const begun = await Promise.all(jobIds.map((id) => lab.attemptBegun(id, 2)))
    const longest = Math.max(...begun.map(({ at }) => at)) - readyAt
    console.info(`given back on ${name}: the next process began all calls ${longest} ms after it was seen ready`)
    // Some hundred milliseconds; more only where the machine is too busy to run it.
    expect(longest).toBeLessThan(5_000)
    for (const id of jobIds) {
      await next.client.finished(id)
      expect(await lab.job(id)).toMatchObject({ status: "done", attempts: 2, failures: 0, lostWorkers: 0 })
      expect(lab.calls(id).map(({ event, pid }) => [event, pid])).toEqual([
        ["begun", stopped.pid],
        ["begun", next.pid],
        ["ended", next.pid],
      ])
    }
  })

  it("releases jobs to another running process, which finds them at its next poll", async () => {
    await using lab = await Lab.open(makeStore)
    const env = { KILN_DRAIN_SECONDS: "0", KILN_LEASE_SECONDS: "60" }
    const stopped = await lab.start({ env })
    const jobId = await stopped.client.speak("hold@1")
    await lab.attemptBegun(jobId, 1)
    const other = await lab.start({ env })
    stopped.kill("SIGTERM")
    const stoppedAt = Date.now()
    const took = (await lab.attemptBegun(jobId, 2)).at - stoppedAt
    console.info(`given back on ${name}: the process beside it began the call ${took} ms after SIGTERM`)
    // It polls every second or is notified; the lease is a minute.
    expect(took).toBeLessThan(5_000)
    expect((await stopped.ended()).exit).toBe(0)
    await other.client.finished(jobId)
    expect(await lab.job(jobId)).toMatchObject({ status: "done", attempts: 2, failures: 0, lostWorkers: 0 })
  })

  it("a second signal exits immediately; claimed jobs count a lost worker, and the next process finishes them", async () => {
    await using lab = await Lab.open(makeStore)
    const stopped = await lab.start({ env: { KILN_DRAIN_SECONDS: "30" } })
    const jobId = await stopped.client.speak("hold@1")
    await lab.attemptBegun(jobId, 1)
    stopped.kill("SIGTERM")
    await stopped.says(/shutting down; send \w+( again)? to exit immediately/, "stderr")
    stopped.kill("SIGTERM")
    const at = performance.now()
    expect((await stopped.ended()).exit).toBe(143)
    expect(performance.now() - at, "not after the drain").toBeLessThan(5_000)
    const next = await lab.start()
    await next.client.finished(jobId)
    await expectSpokenOnce(lab, jobId, { clients: [next.client], lostWorkers: 1 })
  })
})
