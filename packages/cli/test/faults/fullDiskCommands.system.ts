import { existsSync, rmSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { run, temporaryDirectory, until } from "@kiln/service-lab"
import { openEngine } from "./support/embedded.ts"
import { fill, smallDisk } from "./support/Mount.ts"
import { describeWith } from "./support/needs.ts"
import { brokenPromises, readRecords } from "./support/Records.ts"
import { expectUnavailable, startService } from "./support/Service.ts"

const reserveOf = (directory: string): string => join(directory, "kiln.db-reserve")

/** Each deletes, or stops work, and must work on a disk without a free byte. */
const commands = (jobId: string): ReadonlyArray<ReadonlyArray<string>> => [
  ["job", "purge-data", jobId],
  ["blobs", "sweep"],
  ["switch", "off", "ai"],
  ["key", "list"],
  ["retention", "run"],
]

const expectCommands = async (directory: string, jobId: string): Promise<void> => {
  for (const command of commands(jobId)) {
    const { exit, stderr } = await run([...command], { KILN_DATA_DIR: directory })
    expect({ command, exit, stderr }).toMatchObject({ command, exit: 0 })
  }
}

describeWith("mounts", "leaving a full disk", () => {
  it("every command that frees room works, with a service and without, and the service goes on", async () => {
    using disk = smallDisk(4)
    await using service = await startService(disk.path)
    const { api } = service
    const ids = []
    for (let n = 0; n < 8; n++) ids.push(await api.createSpeech(`Number ${n}. ${"Long. ".repeat(300)}`))
    for (const id of ids) expect((await api.finished(id)).status).toBe("done")
    await until(() => (existsSync(reserveOf(disk.path)) ? true : undefined))

    const makeRoom = fill(disk.path)
    await until(async () => ((await api.speak("x".repeat(4_000))).status === 503 ? true : undefined))
    await until(async () => ((await service.ready()).checks["writes"] === "failing" ? true : undefined))
    expect(service.kiln.stderr).toMatch(/the disk of .*kiln\.db is full \(0 B free\)/)
    // Requests that free room are answered, those that need it are not.
    expect((await service.erase(ids[0] ?? "")).status).toBe(204)
    await expectCommands(disk.path, ids[1] ?? "")

    service.kiln.kill("SIGTERM")
    expect((await service.kiln.ended()).exit).toBe(0)
    const refill = fill(join(disk.path, "blobs"))
    await expectCommands(disk.path, ids[2] ?? "")
    const doctor = await run(["doctor"], { KILN_DATA_DIR: disk.path })
    expect(doctor.stdout).toMatch(/WRONG\s+disk/)
    expect(doctor.stdout).toMatch(/ok\s+migrations/)
    await using again = await startService(disk.path, {}, service.key)
    await expectUnavailable(await again.api.speak("Still full."))
    expect((await again.erase(ids[3] ?? "")).status).toBe(204)
    refill()
    makeRoom()
    await until(async () => ((await again.ready()).status === 200 ? true : undefined))
    expect((await again.api.finished(await again.api.createSpeech("After."))).status).toBe("done")
    await until(() => (existsSync(reserveOf(disk.path)) ? true : undefined))
    again.kiln.kill("SIGTERM")
    expect((await again.kiln.ended()).exit).toBe(0)
    const records = readRecords(disk.path)
    expect(records?.integrity).toEqual([])
    expect(brokenPromises(disk.path, records?.blobs ?? [])).toEqual([])
  })

  it("kiln retention run empties a disk that jobs alone have filled", async () => {
    using disk = smallDisk(4)
    // The rule of the service counts for a while after it was killed, so it has the same.
    const retention = "30s"
    const environment = { KILN_DATA_DIR: disk.path, KILN_DATA_RETENTION: retention, KILN_JOB_RETENTION: retention }
    {
      await using service = await startService(disk.path, environment)
      await until(() => (existsSync(reserveOf(disk.path)) ? true : undefined))
      await until(async () => {
        const answers = await Promise.all(Array.from({ length: 20 }, () => service.api.speak("x".repeat(4_000))))
        return answers.some(({ status }) => status === 503) ? true : undefined
      })
      // A sweep gives the reserve up for a moment. Dying in it is another accident.
      await until(() => {
        service.kiln.kill("SIGSTOP")
        if (existsSync(reserveOf(disk.path))) return true
        service.kiln.kill("SIGCONT")
        return undefined
      })
      await service.kiln.crash()
    }
    fill(disk.path)()
    const makeRoom = fill(disk.path)
    await new Promise((resolve) => setTimeout(resolve, 31_000))
    const before = readRecords(disk.path)?.jobs.filter(({ status }) => status === "done").length ?? 0
    expect(before).toBeGreaterThan(5)
    const { exit, stderr, stdout } = await run(["retention", "run", "--json"], environment)
    expect(exit, stderr).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ deleted_jobs: before })
    expect(readRecords(disk.path)?.jobs.filter(({ status }) => status === "done")).toEqual([])
    makeRoom()
  })

  it("an engine in a program starts, and its eraseData makes room", async () => {
    using disk = smallDisk(4)
    let jobId = ""
    {
      await using engine = await openEngine(disk.path)
      const job = await engine.submit("speech_synthesis", { input: "Hello." })
      jobId = job.id
      await engine.wait(job)
      await until(() => (existsSync(reserveOf(disk.path)) ? true : undefined))
    }
    fill(disk.path)
    await using engine = await openEngine(disk.path)
    await expect(engine.submit("speech_synthesis", { input: "x".repeat(4_000) })).rejects.toThrow(/is full/)
    await engine.eraseData(jobId)
    expect(await engine.get(jobId)).toMatchObject({ status: "done", output: null })
  })

  it("a backup and a restore to a full disk name it, and do not advise to delete data of the installation", async () => {
    using data = temporaryDirectory()
    await using service = await startService(data.path)
    const { api } = service
    await api.finished(await api.createSpeech("A file."))
    using disk = smallDisk(1)
    using backups = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await run(["backup", backups.path], env)
    const small = join(disk.path, "kiln")
    // Neither the files nor the database fit.
    for (const room of [1_000, 40_000]) {
      const makeRoom = fill(disk.path, room)
      for (const command of [
        ["backup", small],
        ["restore", backups.path, "--to", small],
      ]) {
        const { exit, stderr } = await run(command, env)
        expect({ command, exit, stderr }).toMatchObject({
          exit: 1,
          stderr: expect.stringMatching(/ is full: free space/),
        })
        expect(stderr).toContain(`the disk of ${small}`)
        expect(stderr).not.toContain("eleting the data")
        rmSync(small, { recursive: true })
      }
      makeRoom()
    }
  })
})
