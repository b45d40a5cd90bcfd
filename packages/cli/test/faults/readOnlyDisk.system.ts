import { expect, it } from "vitest"
import { run, temporaryDirectory, until } from "@kiln/service-lab"
import { attach } from "./support/attach.ts"
import { switchableDisk } from "./support/Mount.ts"
import { describeWith } from "./support/needs.ts"
import { readRecords } from "./support/Records.ts"
import { expectUnavailable, put, startService } from "./support/Service.ts"
import { noise } from "./support/speech.ts"

describeWith("mounts", "a read-only disk", () => {
  it("under the blobs: 503 for files, jobs wait, and everything continues once it is writable", async () => {
    using disk = switchableDisk()
    using data = temporaryDirectory()
    await using service = await startService(data.path, { KILN_BLOBS: `file:${disk.path}` })
    const { api } = service
    const before = await api.finished(await api.createSpeech("Before."))
    const bytes = await service.audio(before)
    const announced = await service.announce(1)
    disk.become("ro")
    await expectUnavailable(await put(announced.upload_url, noise(1, 1)))
    const id = await api.createSpeech("During.")
    await until(async () => ((await service.ready()).checks["blobs"] === "failing" ? true : undefined))
    expect(await service.ready()).toMatchObject({ status: 503, checks: { writes: "ok", worker: "ok" } })
    expect(await service.audio(await api.job(before.id))).toEqual(bytes)
    // The deletion stands, though the bytes cannot go yet.
    await expectUnavailable(await service.erase(before.id))
    expect((await fetch(before.output?.audio_url ?? "")).status).toBe(410)
    expect((await api.job(id)).status).toBe("processing")
    disk.become("rw")
    expect((await put(announced.upload_url, noise(1, 1))).status).toBe(204)
    expect((await api.finished(id)).status).toBe("done")
    expect((await service.erase(before.id)).status).toBe(204)
    await until(async () => ((await service.ready()).status === 200 ? true : undefined))
    service.kiln.kill("SIGTERM")
    expect((await service.kiln.ended()).exit).toBe(0)
    expect(readRecords(data.path)).toMatchObject({ integrity: [], purges: [] })
  })

  it("at startup: the process reports it and exits", async () => {
    using disk = switchableDisk()
    disk.become("ro")
    const { exit, stderr } = await run(["serve"], { KILN_DATA_DIR: disk.path, PORT: "0" })
    expect(exit).not.toBe(0)
    expect(stderr).toContain("cannot write to the data directory")
  })
})

describeWith("attach", "a database that becomes read-only", () => {
  // The system refuses to remount what is open for writing; a disk that fails turns read-only all the same.
  it("is 503 for writers while readers continue, and recovers", async () => {
    using data = temporaryDirectory()
    await using service = await startService(data.path)
    const { api } = service
    const before = await api.finished(await api.createSpeech("Before."))
    {
      await using _ = await attach(service.kiln.pid, ["-o", "/dev/null", "-e", "inject=pwrite64,ftruncate:error=EROFS"])
      await expectUnavailable(await api.speak("During."))
      expect(await api.job(before.id)).toMatchObject({ status: "done" })
      await until(async () => ((await service.ready()).checks["writes"] === "failing" ? true : undefined))
    }
    expect((await api.finished(await api.createSpeech("After."))).status).toBe("done")
    await until(async () => ((await service.ready()).status === 200 ? true : undefined))
    await service.kiln.crash()
    expect(readRecords(data.path)).toMatchObject({ integrity: [], jobs: [{ status: "done" }, { status: "done" }] })
  })
})
