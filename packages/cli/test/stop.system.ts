import { describe, expect, it } from "vitest"
import { Api, type PolledJob } from "./support/Api.ts"
import { serve, temporaryDirectory, until } from "@kiln/service-lab"
import { liveSpeech } from "./support/liveSpeech.ts"
import { speechGate } from "./support/speechGate.ts"
import { storedJobs } from "./support/storedJobs.ts"

const createAll = async (api: Api, texts: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  for (const text of texts) ids.push(await api.createSpeech(text))
  return ids
}

/** Waits until this many of the jobs are running. */
const running = (api: Api, ids: ReadonlyArray<string>, count: number) =>
  until(async () => {
    const jobs = await api.jobs(ids)
    return jobs.filter((job: PolledJob) => job.status === "processing").length >= count ? jobs : undefined
  })

describe("a stop signal", () => {
  it("lets claimed jobs finish, leaves the others, and exits with 0", async () => {
    using data = temporaryDirectory()
    using gate = speechGate()
    const { environment, key, owner } = await liveSpeech(data.path)
    await using kiln = await serve({ ...environment, KILN_CONCURRENCY: "4", KILN_DRAIN_SECONDS: "10" })
    const api = new Api(kiln.listening.url, key)
    const ids = await createAll(api, Array<string>(10).fill(gate.text))
    await running(api, ids, 4)
    kiln.kill("SIGTERM")
    await kiln.says(/shutting down/, "stderr")
    gate.open()
    const { exit } = await kiln.ended(9_000)
    expect(exit).toBe(0)
    // Nothing is accepted any more.
    await expect(api.speak("too late")).rejects.toThrow("fetch failed")

    const jobs = await storedJobs(data.path, owner, ids)
    expect(jobs.map((job) => job.status)).toEqual([...Array(4).fill("done"), ...Array(6).fill("queued")])
    expect(jobs.filter((job) => job.status === "queued").map((job) => job.attempts)).toEqual(Array(6).fill(0))
    expect(jobs.map((job) => [job.held, job.failures, job.lostWorkers])).toEqual(jobs.map(() => [false, 0, 0]))
  })

  it("releases jobs that do not finish within the drain time, at no cost to them", async () => {
    using data = temporaryDirectory()
    const { environment, key, owner } = await liveSpeech(data.path)
    await using kiln = await serve({ ...environment, KILN_DRAIN_SECONDS: "1" })
    const api = new Api(kiln.listening.url, key)
    const ids = await createAll(api, ["wait:600000", "wait:600000"])
    await running(api, ids, 2)
    const stoppedAt = performance.now()
    kiln.kill("SIGINT")
    expect((await kiln.ended(9_000)).exit).toBe(0)
    expect(performance.now() - stoppedAt).toBeGreaterThan(950)
    const jobs = await storedJobs(data.path, owner, ids)
    expect(jobs.map(({ failures, held, lostWorkers, status }) => ({ failures, held, lostWorkers, status }))).toEqual(
      ids.map(() => ({ failures: 0, held: false, lostWorkers: 0, status: "processing" })),
    )
  })

  it("is followed by a delay in which the service answers, and which the next signal ends", async () => {
    using data = temporaryDirectory()
    await using kiln = await serve({ KILN_DATA_DIR: data.path, KILN_STOP_DELAY: "10m" })
    const { url } = kiln.listening
    const api = new Api(url, kiln.listening.first_key?.key ?? "")
    kiln.kill("SIGTERM")
    await kiln.says(/shutting down; accepting requests for 600 s; send SIGTERM again to skip the wait/, "stderr")
    const readiness = await until(async () => {
      const response = await fetch(`${url}/readyz`)
      return response.ok ? undefined : response
    })
    expect([readiness.status, await readiness.json()]).toMatchObject([503, { status: "stopping" }])
    const accepted = await api.speak("While it waits.")
    expect([accepted.status, accepted.headers.get("connection")]).toEqual([202, "close"])
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe(0)
    expect(kiln.stderr).toMatch(/SIGTERM: closing now; send SIGTERM again to exit immediately/)
    await expect(fetch(url)).rejects.toThrow("fetch failed")
  })

  it("is followed by no more than the delay", async () => {
    using data = temporaryDirectory()
    await using kiln = await serve({ KILN_DATA_DIR: data.path, KILN_STOP_DELAY: "2s" })
    const stoppedAt = performance.now()
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe(0)
    expect(performance.now() - stoppedAt).toBeGreaterThan(1_950)
  })

  it("works even if nobody reads the log any more", async () => {
    using data = temporaryDirectory()
    await using kiln = await serve({ KILN_DATA_DIR: data.path })
    kiln.stopReading()
    const api = new Api(kiln.listening.url, kiln.listening.first_key?.key ?? "")
    expect(await api.finished(await api.createSpeech("Still here."))).toMatchObject({ status: "done" })
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe(0)
  })

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("a second %s exits immediately with %i", async (signal, code) => {
    using data = temporaryDirectory()
    const { environment, key } = await liveSpeech(data.path)
    await using kiln = await serve(environment)
    const api = new Api(kiln.listening.url, key)
    await running(api, await createAll(api, ["wait:600000"]), 1)
    kiln.kill(signal)
    await kiln.says(/shutting down; send \w+( again)? to exit immediately/, "stderr")
    // What a package manager passes on of one Ctrl-C comes within moments, and is not a second one.
    if (signal === "SIGINT") {
      kiln.kill(signal)
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    expect(kiln.stderr.match(/shutting down/g)).toHaveLength(1)
    kiln.kill(signal)
    const at = performance.now()
    expect((await kiln.ended(5_000)).exit).toBe(code)
    expect(performance.now() - at).toBeLessThan(2_000)
  })
})
