import { cpSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { KilnProcess, run, runJson, temporaryDirectory, until } from "@kiln/service-lab"
import { copySqlite } from "../support/copies.ts"
import { blobFile } from "../support/blobFiles.ts"
import { blobKeys } from "./support/Records.ts"
import { type Service, startService } from "./support/Service.ts"

const roles = ["all", "api", "worker"] as const

const speak = async (service: Service, text: string): Promise<string> => {
  const { id } = await service.api.finished(await service.api.createSpeech(text))
  return id
}

const expectAllServed = async (service: Service, ids: ReadonlyArray<string>): Promise<void> => {
  for (const id of ids) expect((await service.audio(await service.api.job(id))).length).toBeGreaterThan(0)
}

/** Sweeps at once, where the default waits for minutes. */
const quickSweeps = (directory: string): string => {
  const path = join(directory, "quick.config.mjs")
  writeFileSync(path, "export default { engine: { orphanIntervalMs: 1500, pruneIntervalMs: 500 } }\n")
  return path
}

const stop = async ({ kiln }: Service): Promise<void> => {
  kiln.kill("SIGTERM")
  expect((await kiln.ended()).exit).toBe(0)
}

describe("a copy of the database on the same blobs", () => {
  it("that is older does not start, whatever its role, and continues only after `kiln adopt`; no file is lost", async () => {
    using data = temporaryDirectory()
    using copy = temporaryDirectory()
    const ids: Array<string> = []
    let key = ""
    {
      await using service = await startService(data.path)
      key = service.key
      ids.push(await speak(service, "before the copy"))
      copySqlite(data.path, copy.path)
      await stop(service)
    }
    {
      await using service = await startService(data.path, {}, key)
      ids.push(await speak(service, "after the copy"))
      await stop(service)
    }
    const before = blobKeys(data.path)
    const config = quickSweeps(copy.path)
    const env = { KILN_DATA_DIR: copy.path, KILN_BLOBS: `file:${data.path}`, KILN_CONFIG: config, PORT: "0" }
    for (const role of roles) {
      const { exit, stderr, stdout } = await run(["serve"], { ...env, KILN_ROLE: role })
      expect({ exit, stdout }).toEqual({ exit: 1, stdout: "" })
      expect(stderr).toMatch(
        /^kiln: the database .* is a copy, or was moved by copying: .* kiln adopt --restored .*\n$/,
      )
    }
    for (const command of [["sweep"], ["sweep", "--dry-run"], ["sweep", "--force"]])
      expect((await run(["blobs", ...command], env)).stderr).toContain("kiln adopt --restored")
    const sick = await run(["doctor", "--json"], env)
    expect(JSON.parse(sick.stdout)).toMatchObject({
      ok: false,
      checks: expect.arrayContaining([expect.objectContaining({ name: "orphans", status: "problem" })]),
    })
    expect(blobKeys(data.path)).toEqual(before)

    expect(await runJson(["adopt", "--restored"], env)).toMatchObject({ adopted: true, entries: [expect.any(String)] })
    expect(await runJson(["adopt", "--restored"], env)).toMatchObject({ adopted: false, entries: [] })
    {
      await using restored = await startService(
        copy.path,
        { KILN_BLOBS: `file:${data.path}`, KILN_CONFIG: config, KILN_ORPHAN_GRACE: "1s" },
        key,
      )
      // New records, so that its newest is later than the files it does not know, and later than the adoption.
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      const id = await speak(restored, "after the restore")
      const orphan = `jobs/${id.slice(4)}/1/leftover`
      cpSync(blobFile(data.path, `jobs/${id.slice(4)}/1/audio`), join(data.path, `blobs/${orphan}.blob`))
      // It sweeps: what a record says is not needed goes.
      await until(() => (blobKeys(data.path).includes(orphan) ? undefined : true))
      expect(blobKeys(data.path)).toEqual(expect.arrayContaining([...before]))
      await stop(restored)
    }
    // And the one that is behind now is the other one.
    const { exit, stderr } = await run(["serve"], { KILN_DATA_DIR: data.path, PORT: "0" })
    expect({ exit, stderr }).toEqual({ exit: 1, stderr: expect.stringContaining("is behind the blob store") })
    await runJson(["adopt", "--restored"], { KILN_DATA_DIR: data.path })
    await using service = await startService(data.path, {}, key)
    await expectAllServed(service, ids)
  })

  it.each(roles)("that is new and runs as %s removes nothing, and neither does the original", async (role) => {
    using data = temporaryDirectory()
    using copy = temporaryDirectory()
    const config = quickSweeps(copy.path)
    await using service = await startService(data.path, { KILN_CONFIG: config })
    const ids = [await speak(service, "before the copy")]
    copySqlite(data.path, copy.path)
    ids.push(await speak(service, "after the copy"))
    const before = blobKeys(data.path)
    const env = {
      KILN_DATA_DIR: copy.path,
      KILN_BLOBS: `file:${data.path}`,
      KILN_CONFIG: config,
      KILN_ROLE: role,
      PORT: "0",
    }
    expect((await run(["serve"], env)).stderr).toContain("is a copy, or was moved by copying")
    // Where copies are allowed, the blobs still tell.
    await using clone = new KilnProcess(["serve", "--json"], { ...env, KILN_COPIES: "allow" })
    // Either it was behind already, or the first that looks says so, and then the other.
    const outcome = await Promise.race([
      clone.ended().then(({ stderr }) => stderr),
      clone.says(/another copy of it uses the same blobs/, "stderr").then(([text]) => text),
    ])
    expect(outcome).toMatch(/is behind the blob store|another copy of it uses the same blobs/)
    ids.push(await speak(service, "beside the copy"))
    // Long enough for both to sweep several times.
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    expect(blobKeys(data.path)).toEqual(expect.arrayContaining([...before]))
    await expectAllServed(service, ids)
  })
})

describe("kiln blobs sweep", () => {
  it("shows and removes orphans, and more than a tenth of all files only with --force", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    let id = ""
    {
      await using service = await startService(data.path)
      id = (await speak(service, "kept")).slice(4)
      await stop(service)
    }
    const audio = blobFile(data.path, `jobs/${id}/1/audio`)
    const leave = (count: number) => {
      // Every other one where versions before shards stored it.
      for (let n = 0; n < count; n++)
        cpSync(
          audio,
          n % 2 === 0
            ? blobFile(data.path, `jobs/${id}/1/left${n}`)
            : join(data.path, `blobs/jobs/${id}/1/left${n}.blob`),
        )
    }
    leave(3)
    const dry = await runJson(["blobs", "sweep", "--dry-run"], env)
    expect(dry).toMatchObject({ dry_run: true, blobs: 4, orphans: 3, removed: 0, exceeds_share: false, refused: false })
    expect(dry.bytes).toBeGreaterThan(3_000)
    const doctor = await runJson(["doctor"], env)
    expect(doctor.checks).toContainEqual(
      expect.objectContaining({ name: "orphans", status: "ok", summary: expect.stringContaining("3 files of 4") }),
    )
    const swept = await run(["blobs", "sweep", "--json"], env)
    expect(JSON.parse(swept.stdout)).toMatchObject({ orphans: 3, removed: 3 })
    expect(swept.stderr).toContain(`removed 3 orphaned blobs of 4 (${dry.bytes} bytes)`)
    expect(blobKeys(data.path)).toEqual([`jobs/${id}/1/audio`])

    leave(101)
    const refused = await run(["blobs", "sweep", "--json"], env)
    expect(refused.exit).toBe(1)
    expect(JSON.parse(refused.stdout)).toMatchObject({ orphans: 101, removed: 0, exceeds_share: true, refused: true })
    expect(refused.stderr).toContain("kiln blobs sweep --force")
    expect((await run(["doctor"], env)).stdout).toContain("kiln blobs sweep --force")
    expect(blobKeys(data.path)).toHaveLength(102)
    expect(JSON.parse((await run(["blobs", "sweep", "--force", "--json"], env)).stdout)).toMatchObject({ removed: 101 })
    expect(blobKeys(data.path)).toEqual([`jobs/${id}/1/audio`])
  })
})
