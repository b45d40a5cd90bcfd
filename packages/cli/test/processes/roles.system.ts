import { describe, expect, it } from "vitest"
import { until } from "@kiln/service-lab"
import { wav } from "../crash/support/Client.ts"
import { type ApiProcess, Fleet, patience } from "./support/Fleet.ts"

/** Processes that answer requests and processes that run jobs, apart: what they tell each other, they tell by the store. */

const speech = "/v1/audio/speech"

/** Returns the missing prerequisite of a live job, or `accepted`. */
const missing = async ({ live }: ApiProcess): Promise<unknown> => {
  const response = await live.post(speech, { input: "x" })
  const { error } = (await response.json()) as {
    readonly error?: { readonly code: string; readonly details: { readonly missing: unknown } | null }
  }
  return response.status === 202 ? "accepted" : [response.status, error?.code, error?.details?.missing]
}
const noProvider = [403, "live_not_active", ["provider:speech_synthesis"]]

describe("processes of different roles", () => {
  it("a job accepted by one process is run by another and served by a third", patience, async () => {
    await using fleet = await Fleet.open()
    const options = { env: { KILN_CONCURRENCY: "2" } }
    const [[one, other], ...workers] = await Promise.all([fleet.apis(), fleet.worker(options), fleet.worker(options)])
    const ids = await Promise.all(Array.from({ length: 12 }, () => one.live.speak("wait:200")))
    for (const id of ids) expect((await other.live.finished(id)).status).toBe("done")
    const ran = new Set(fleet.calls().map(({ pid }) => pid))
    expect(ran).toEqual(new Set(workers.map(({ pid }) => pid)))
    expect(fleet.calls().filter(({ event }) => event === "begun")).toHaveLength(12)

    // URLs that one process signs, the other one honours: their keys are the store's.
    const { output } = await one.live.job(ids[0]!)
    const { pathname, search } = new URL(output?.audio_url ?? "")
    const file = await fetch(`${other.url}${pathname}${search}`)
    expect([file.status, file.headers.get("content-type")]).toEqual([200, "audio/mpeg"])
    const upload = await one.live.announce()
    expect((await other.live.put(upload, wav(1))).status).toBe(204)
    const transcription = await one.live.create("/v1/audio/transcriptions", { upload_id: upload.id })
    expect((await other.live.finished(transcription)).status).toBe("done")
    expect((await other.live.get(`/v1/jobs/${ids[0]}`)).status).toBe(200)
  })

  it("live jobs are accepted once a worker with a provider has run, and not before", patience, async () => {
    await using fleet = await Fleet.open()
    const api = await fleet.api()
    expect(await api.live.readiness()).toBe(200)
    expect(await missing(api)).toEqual(noProvider)
    await fleet.worker({ live: false })
    expect(await missing(api)).toEqual(noProvider)
    const worker = await fleet.worker()
    // It publishes its kinds before it reports that it runs.
    const id = await api.live.speak("x")
    expect((await api.live.finished(id)).status).toBe("done")
    expect(fleet.calls().map(({ pid }) => pid)).toEqual([worker.pid, worker.pid])
    worker.kill("SIGTERM")
    expect((await worker.ended()).exit).toBe(0)
    expect(await missing(api)).toBe("accepted")
    const image = await api.live.post("/v1/images/generations", { prompt: "x" })
    expect(image.status).toBe(202)
  })

  it("without workers jobs wait, and continue when one starts", patience, async () => {
    await using fleet = await Fleet.open()
    const api = await fleet.api()
    const waiting = await api.sandbox.speak("x")
    const first = await fleet.worker({ env: { KILN_DRAIN_SECONDS: "0", KILN_CONCURRENCY: "1" } })
    expect((await api.sandbox.finished(waiting)).status).toBe("done")

    const held = await api.live.speak("hold@1")
    const queued = await api.live.speak("x")
    await until(() => fleet.calls().find(({ jobId }) => jobId === held))
    first.kill("SIGTERM")
    expect((await first.ended()).exit).toBe(0)
    // The client does not notice: running jobs stay `processing`, and queued jobs stay queued.
    expect((await api.live.job(held)).status).toBe("processing")
    expect((await api.live.job(queued)).status).toBe("queued")
    expect(await api.live.readiness()).toBe(200)

    const second = await fleet.worker()
    for (const id of [held, queued]) expect((await api.live.finished(id)).status).toBe("done")
    const begun = fleet.calls().filter(({ event }) => event === "begun")
    expect(begun.filter(({ jobId }) => jobId === held).map(({ pid }) => pid)).toEqual([first.pid, second.pid])
    // It was released, not lost.
    expect(await fleet.job(held)).toMatchObject({ attempts: 2, failures: 0, lostWorkers: 0 })
  })
})
