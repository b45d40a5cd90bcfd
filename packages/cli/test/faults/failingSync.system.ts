import { expect, it } from "vitest"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { speechGate } from "../support/speechGate.ts"
import { attach } from "./support/attach.ts"
import { describeWith } from "./support/needs.ts"
import { brokenPromises, readRecords } from "./support/Records.ts"
import { expectUnavailable, liveCaller, put, slowSpeech, startService } from "./support/Service.ts"
import { noise } from "./support/speech.ts"

const everySync = "inject=fsync,fdatasync:error=EIO"
const everyOtherSync = "inject=fsync,fdatasync:error=EIO:when=1+2"

describeWith("attach", "a sync that fails", () => {
  it("is 503 and nothing is acknowledged; the service recovers with the disk", async () => {
    using data = temporaryDirectory()
    using gate = speechGate()
    await using service = await startService(data.path, slowSpeech)
    const { api } = service
    const live = await liveCaller(service, data.path)
    const first = await api.createSpeech("Before.")
    const announced = await service.announce(1)
    await api.finished(first)
    // In a worker's hand when no sync succeeds: its result is not written before one does.
    const running = await live.createSpeech(gate.text)
    await until(async () => ((await live.job(running)).status === "processing" ? true : undefined))
    const key = crypto.randomUUID()
    {
      await using _ = await attach(service.kiln.pid, ["-o", "/dev/null", "-e", everySync])
      for (let n = 1; n <= 5; n++) await expectUnavailable(await api.speak("During.", key))
      gate.open()
      await expectUnavailable(await put(announced.upload_url, noise(1, 1)))
      await expectUnavailable(await service.erase(first))
      const notReady = await until(async () => {
        const now = await service.ready()
        return now.checks["blobs"] === "failing" && now.checks["writes"] === "failing" ? now : undefined
      })
      expect(notReady.status).toBe(503)
      expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
    }
    const again = await api.speak("During.", key)
    expect(again.status).toBe(202)
    const { id } = await again.json()
    expect((await put(announced.upload_url, noise(1, 1))).status).toBe(204)
    expect((await live.finished(running)).status).toBe("done")
    expect((await api.finished(id)).status).toBe("done")
    await service.kiln.crash()

    const records = readRecords(data.path)
    expect(records?.integrity).toEqual([])
    expect(brokenPromises(data.path, records?.blobs ?? [])).toEqual([])
    expect(records?.jobs.map((job) => job.id)).toEqual([first, running, id])
    for (const job of records?.jobs ?? []) expect(job).toMatchObject({ status: "done", attempts: 1, failures: 0 })
  })

  it("occasionally: every 202 survives a kill, whatever happened in between", async () => {
    using data = temporaryDirectory()
    const accepted: Array<string> = []
    const refused: Array<string> = []
    let key = ""
    {
      await using service = await startService(data.path, { KILN_LEASE_SECONDS: "2" })
      key = service.key
      await using _ = await attach(service.kiln.pid, ["-o", "/dev/null", "-e", everyOtherSync])
      for (let n = 1; n <= 30; n++) {
        const response = await service.api.speak(`Number ${n}.`, `n${n}`)
        if (response.status === 202) accepted.push((await response.json()).id)
        else refused.push(`n${n}`)
        if (response.status !== 202) await expectUnavailable(response)
      }
      await service.kiln.crash()
    }
    expect([accepted.length, refused.length].every((count) => count > 0)).toBe(true)
    await using service = await startService(data.path, { KILN_LEASE_SECONDS: "2" }, key)
    for (const id of accepted) expect((await service.api.finished(id)).status).toBe("done")
    // A refusal says nothing about whether it happened; the same request under the same key makes it so, once.
    for (const one of refused) expect((await service.api.speak(`Number ${one.slice(1)}.`, one)).status).toBe(202)
    await service.kiln.crash()
    expect(readRecords(data.path)?.jobs).toHaveLength(30)
  })
})
