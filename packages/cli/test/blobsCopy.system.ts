import { appendFileSync, existsSync, globSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { freshDatabase } from "@kiln/postgres-lab"
import { KilnProcess, run, runJson, temporaryDirectory } from "@kiln/service-lab"
import { startFauxqs } from "fauxqs"
import { describe, expect, it } from "vitest"
import { startService, type Service } from "./faults/support/Service.ts"
import { fill, smallDisk } from "./faults/support/Mount.ts"
import { describeWith } from "./faults/support/needs.ts"

type Environment = Readonly<Record<string, string>>

const blobsIn = (directory: string): ReadonlyArray<string> =>
  globSync("blobs/{jobs,uploads}/**/*.blob", { cwd: directory }).toSorted()

const hasMarker = (directory: string): boolean => existsSync(join(directory, "blobs/installation"))

const doctorSays = async (env: Environment): Promise<unknown> => {
  const { stdout } = await run(["doctor", "--json"], env)
  return JSON.parse(stdout).checks.find(({ name }: { readonly name: string }) => name === "blobs").summary
}

const speak = async (service: Service, count: number): Promise<ReadonlyArray<string>> => {
  const ids = await Promise.all(Array.from({ length: count }, (_, n) => service.api.createSpeech(`file ${n}`)))
  for (const id of ids) await service.api.finished(id)
  return ids
}

const stop = async (service: Service): Promise<void> => {
  service.kiln.kill("SIGTERM")
  expect((await service.kiln.ended()).exit).toBe(0)
}

describe("kiln blobs copy", () => {
  it("moves a service that runs from its data directory to S3, to Postgres and back, and no file is lost or revived", async () => {
    await using database = await freshDatabase()
    const s3 = await startFauxqs({ port: 0, logger: false })
    await using stack = new AsyncDisposableStack()
    stack.defer(() => s3.stop())
    s3.createBucket("files")
    using data = temporaryDirectory()
    using target = temporaryDirectory()
    const env = {
      KILN_DATA_DIR: data.path,
      DATABASE_URL: database.url,
      AWS_ACCESS_KEY_ID: "id",
      AWS_SECRET_ACCESS_KEY: "very-secret",
    }
    const places = ["file:", `s3://files/kiln?endpoint=http://127.0.0.1:${s3.port}`, "postgres", `file:${target.path}`]
    const kept: Array<string> = []
    const erased: Array<string> = []
    let key: string | undefined
    for (const [n, place] of places.entries()) {
      const here = { ...env, KILN_BLOBS: place }
      await using service = await startService(data.path, here, key)
      key = service.key
      expect(service.kiln.stderr).not.toContain("files written since")
      // Everything that was stored before the move is served, and what was deleted during it is not.
      for (const id of kept) await service.audio(await service.api.job(id))
      expect((await run(["blobs", "sweep"], here)).exit).toBe(0)
      const [next] = places.slice(n + 1)
      if (next === undefined) break
      const [gone = "", ...ids] = await speak(service, 6)
      kept.push(...ids)
      const flags = ["blobs", "copy", "--from", place, "--to", next]
      expect(await runJson([...flags, "--dry-run"], here)).toMatchObject({
        copied_files: kept.length + 1,
        usable: false,
      })
      expect((await run(["serve"], { ...here, KILN_BLOBS: next, PORT: "0" })).stderr).toContain("has no marker")
      expect(await runJson(flags, here)).toMatchObject({
        files: kept.length + 1,
        copied_files: kept.length + 1,
        usable: true,
      })
      // The service goes on meanwhile.
      expect((await service.erase(gone)).status).toBeLessThan(300)
      erased.push(gone)
      kept.push(...(await speak(service, 3)))
      await stop(service)
      expect(await runJson(flags, here)).toMatchObject({ files: kept.length, copied_files: 3 })
    }
    expect(await doctorSays({ ...env, KILN_BLOBS: places.at(-1) ?? "" })).toBe(`${kept.length} files verified`)
    for (const id of erased) expect(blobsIn(target.path).join()).not.toContain(id.slice(4))
    expect(blobsIn(target.path)).toHaveLength(kept.length)
  })

  it("goes on where it was killed, and kiln does not start on the new store before it is complete", async () => {
    using data = temporaryDirectory()
    using target = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using service = await startService(data.path)
    const ids = await speak(service, 60)
    await stop(service)
    const flags = ["blobs", "copy", "--from", "file:", "--to", `file:${target.path}`]
    {
      await using copy = new KilnProcess(flags, env)
      while (blobsIn(target.path).length < 5) await new Promise((resolve) => setTimeout(resolve, 1))
      copy.kill("SIGKILL")
      await copy.ended().catch(() => undefined)
    }
    const before = blobsIn(target.path).length
    // It may have ended just before it was killed.
    const started = hasMarker(target.path)
      ? undefined
      : await run(["serve"], { ...env, KILN_BLOBS: `file:${target.path}`, PORT: "0" })
    expect(started?.stderr ?? "has no marker").toContain("has no marker")
    expect(await runJson(flags, env)).toMatchObject({ files: ids.length, copied_files: ids.length - before })
    expect(blobsIn(target.path)).toEqual(blobsIn(data.path))
    for (const name of blobsIn(data.path))
      expect(readFileSync(join(target.path, name))).toEqual(readFileSync(join(data.path, name)))
    await using moved = await startService(data.path, { KILN_BLOBS: `file:${target.path}` }, service.key)
    for (const id of ids.slice(0, 3)) await moved.audio(await moved.api.job(id))
  })

  it("reports what the old store lacks, does not let kiln start without it, and copies the rest", async () => {
    using data = temporaryDirectory()
    using target = temporaryDirectory()
    using mistyped = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using service = await startService(data.path)
    await speak(service, 3)
    await stop(service)
    const to = ["--to", `file:${join(target.path, "files")}`]
    const [lost = "", damaged = ""] = blobsIn(data.path)
    const absent = await run(["blobs", "copy", "--from", `file:${join(mistyped.path, "none")}`, ...to], env)
    expect(absent).toMatchObject({ exit: 1, stderr: expect.stringContaining("there are no files of kiln in") })
    expect(existsSync(join(mistyped.path, "none"))).toBe(false)
    rmSync(join(data.path, lost))
    appendFileSync(join(data.path, damaged), "x")
    const copy = await run(["blobs", "copy", "--from", "file:", ...to, "--json"], env)
    expect(copy.exit).toBe(1)
    const document = JSON.parse(copy.stdout)
    expect(document).toMatchObject({ files: 1, failed_files: 2, usable: false })
    expect(document.missing_files).toHaveLength(1)
    expect(document.damaged_files).toHaveLength(1)
    expect(copy.stderr).toContain("kiln does not start on the new store yet")
    expect(hasMarker(join(target.path, "files"))).toBe(false)
    expect(await runJson(["blobs", "copy", "--from", "file:", ...to, "--force"], env)).toMatchObject({ usable: true })
    await using moved = await startService(data.path, { KILN_BLOBS: `file:${join(target.path, "files")}` }, service.key)
    expect((await moved.ready()).status).toBe(200)
  })
})

describeWith("mounts", "kiln blobs copy to a full disk", () => {
  it("names the disk, leaves nothing half, and goes on once there is room", async () => {
    using disk = smallDisk(1)
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using service = await startService(data.path)
    const ids = await speak(service, 5)
    await stop(service)
    const makeRoom = fill(disk.path)
    const flags = ["blobs", "copy", "--from", "file:", "--to", `file:${disk.path}`]
    const refused = await run(flags, env)
    expect(refused).toMatchObject({ exit: 1, stdout: "" })
    expect(refused.stderr).toContain(`--to file:${disk.path}: `)
    expect(refused.stderr).toMatch(/ENOSPC|full/)
    expect(hasMarker(disk.path)).toBe(false)
    makeRoom()
    expect(await runJson(flags, env)).toMatchObject({ files: ids.length, usable: true })
    expect(blobsIn(disk.path)).toEqual(blobsIn(data.path))
  })
})
