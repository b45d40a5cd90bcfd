import { execFileSync } from "node:child_process"
import { statSync } from "node:fs"
import { expect, it } from "vitest"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { databaseOf } from "./support/embedded.ts"
import { describeWith } from "./support/needs.ts"
import { brokenPromises, readRecords, temporaryFiles } from "./support/Records.ts"
import { expectUnavailable, put, type Service, startService } from "./support/Service.ts"
import { noise } from "./support/speech.ts"

/** Sets a soft limit of a running process; the hard one stays, so that it can be lifted again. */
const limit = ({ kiln }: Service, resource: "nofile" | "fsize", value: number | string): void =>
  void execFileSync("prlimit", ["--pid", String(kiln.pid), `--${resource}=${value}:`])

/**
 * With this limit a process opens nothing more, whatever it closes meanwhile: a new descriptor must be below the limit, and
 * 0 to 2 are its standard streams. Those that are open stay usable.
 */
const NOTHING_MORE = 3

const expectWhole = async (service: Service, directory: string, jobs: number): Promise<void> => {
  service.kiln.kill("SIGTERM")
  expect((await service.kiln.ended()).exit).toBe(0)
  const records = readRecords(directory)
  expect(records?.integrity).toEqual([])
  expect(brokenPromises(directory, records?.blobs ?? [])).toEqual([])
  expect(temporaryFiles(directory)).toEqual([])
  expect(records?.jobs).toHaveLength(jobs)
  for (const job of records?.jobs ?? []) expect(job).toMatchObject({ status: "done", failures: 0, lost_workers: 0 })
}

describeWith("prlimit", "limits of the process", () => {
  it("out of file descriptors: files are 503, jobs wait, and everything continues afterwards", async () => {
    using data = temporaryDirectory()
    await using service = await startService(data.path)
    const { api } = service
    await api.finished(await api.createSpeech("Before."))
    const announced = await service.announce(1)
    // On connections that are open; new ones are refused by the system before anybody could answer.
    limit(service, "nofile", NOTHING_MORE)
    await expectUnavailable(await put(announced.upload_url, noise(1, 1)))
    const id = await api.createSpeech("During.")
    await until(async () => ((await service.ready()).checks["blobs"] === "failing" ? true : undefined))
    expect((await api.job(id)).status).toBe("processing")
    limit(service, "nofile", 1_024)
    expect((await put(announced.upload_url, noise(1, 1))).status).toBe(204)
    expect((await api.finished(id)).status).toBe("done")
    await until(async () => ((await service.ready()).status === 200 ? true : undefined))
    await expectWhole(service, data.path, 2)
  })

  it("file size limit: 503, nothing partly readable, and everything continues afterwards", async () => {
    using data = temporaryDirectory()
    await using service = await startService(data.path)
    const { api } = service
    await api.finished(await api.createSpeech("Before."))
    const announced = await service.announce(4)
    limit(service, "fsize", statSync(`${databaseOf(data.path)}-wal`).size)
    await expectUnavailable(await api.speak("x".repeat(4_000), "during"))
    // Its claim cannot be written either.
    await expectUnavailable(await put(announced.upload_url, noise(1, 4)))
    limit(service, "fsize", "unlimited")
    expect((await put(announced.upload_url, noise(1, 4))).status).toBe(204)
    // Room for records, not for a file of this length.
    const second = await service.announce(20)
    limit(service, "fsize", 500_000)
    await expectUnavailable(await put(second.upload_url, noise(2, 20)))
    limit(service, "fsize", "unlimited")
    expect((await put(second.upload_url, noise(2, 20))).status).toBe(204)
    const again = await api.speak("x".repeat(4_000), "during")
    expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([202, null])
    expect((await api.finished((await again.json()).id)).status).toBe("done")
    await expectWhole(service, data.path, 2)
  })
})
