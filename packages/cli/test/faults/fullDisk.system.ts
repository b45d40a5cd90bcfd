import { expect, it } from "vitest"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { fill, smallDisk } from "./support/Mount.ts"
import { speechGate } from "../support/speechGate.ts"
import { describeWith } from "./support/needs.ts"
import { brokenPromises, readRecords, temporaryFiles } from "./support/Records.ts"
import { expectUnavailable, liveCaller, put, slowSpeech, startService } from "./support/Service.ts"
import { noise } from "./support/speech.ts"

const ready = { status: 200, checks: { store: "ok", writes: "ok", blobs: "ok", worker: "ok" } }

describeWith("mounts", "a full disk", () => {
  it("is 503 and not ready, loses nothing, and recovers once there is room", async () => {
    using disk = smallDisk(16)
    using gate = speechGate()
    await using service = await startService(disk.path, { ...slowSpeech, KILN_LEASE_SECONDS: "4" })
    const { api } = service
    const live = await liveCaller(service, disk.path)
    const before = await api.finished(await api.createSpeech("Before."))
    const bytes = await service.audio(before)
    const announced = await service.announce(1)
    // In a worker's hand when the disk is full.
    const running = await live.createSpeech(gate.text)
    await until(async () => ((await live.job(running)).status === "processing" ? true : undefined))

    const makeRoom = fill(disk.path)
    // Some pages of the log may be there already, to be written over, also later: a heartbeat has the log copied into the database.
    const answers: Array<Response> = []
    const key = await until(async () => {
      const key = crypto.randomUUID()
      const answer = await api.speak("y".repeat(4_000), key)
      if (answer.status !== 503) return void answers.push(answer)
      await expectUnavailable(answer)
      return key
    })
    await expectUnavailable(await put(announced.upload_url, noise(1, 1)))
    const notReady = await until(async () => {
      const now = await service.ready()
      return now.checks["blobs"] === "failing" && now.checks["writes"] === "failing" ? now : undefined
    })
    expect(notReady.status).toBe(503)
    // Operations that need no space continue.
    expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
    expect(await service.audio(await api.job(before.id))).toEqual(bytes)
    // Longer than a lease, which is extended nevertheless, or the provider would be called a second time.
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    gate.open()
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    // It did not fail. It may have ended, with its file: a sweep that copies the log into the database makes a little room.
    expect(["processing", "done"]).toContain((await live.job(running)).status)

    makeRoom()
    await until(async () => ((await service.ready()).status === 200 ? true : undefined))
    expect(await service.ready()).toEqual(ready)
    expect((await put(announced.upload_url, noise(1, 1))).status).toBe(204)
    const again = await api.speak("y".repeat(4_000), key)
    expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([202, null])
    expect((await live.finished(running)).status).toBe("done")
    const accepted = [(await again.json()).id]
    for (const answer of answers) accepted.push((await answer.json()).id)
    for (const id of accepted) expect((await api.finished(id)).status).toBe("done")

    service.kiln.kill("SIGTERM")
    expect((await service.kiln.ended()).exit).toBe(0)
    const records = readRecords(disk.path)
    expect(records?.integrity).toEqual([])
    expect(brokenPromises(disk.path, records?.blobs ?? [])).toEqual([])
    expect(temporaryFiles(disk.path)).toEqual([])
    // Bought once, and no failure is counted.
    expect(records?.jobs).toHaveLength(accepted.length + 2)
    for (const job of records?.jobs ?? [])
      expect(job).toMatchObject({ status: "done", attempts: 1, failures: 0, lost_workers: 0 })
  })

  it("for blobs alone: the job is postponed, its provider is called at most once more, and it does not fail", async () => {
    using disk = smallDisk(1)
    using data = temporaryDirectory()
    await using service = await startService(data.path, { KILN_BLOBS: `file:${disk.path}` })
    const makeRoom = fill(disk.path)
    const ids = await Promise.all([1, 2, 3].map((n) => service.api.createSpeech(`Number ${n}.`)))
    // Each attempt gives up after a quarter of a minute and says so; from the first on nothing of that kind is claimed.
    const givenUp = /attempt ended without a result.*BlobUnavailable/g
    await until(() => (service.kiln.stderr.match(givenUp)?.length === ids.length ? true : undefined), 45_000)
    const late = await service.api.createSpeech("Too late to be bought in vain.")
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    expect((await service.api.job(late)).status).toBe("queued")
    makeRoom()
    for (const id of [...ids, late]) expect((await service.api.finished(id)).status).toBe("done")
    service.kiln.kill("SIGTERM")
    expect((await service.kiln.ended()).exit).toBe(0)
    const jobs = readRecords(data.path)?.jobs ?? []
    expect(jobs.map(({ attempts, failures, lost_workers }) => ({ attempts, failures, lost_workers }))).toEqual([
      ...ids.map(() => ({ attempts: 2, failures: 0, lost_workers: 0 })),
      { attempts: 1, failures: 0, lost_workers: 0 },
    ])
  })
})
