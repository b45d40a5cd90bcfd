import { readdirSync } from "node:fs"
import { join } from "node:path"
import { KilnProcess, run, runJson, temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { startService } from "./support/Service.ts"

/** Moments of a backup, from loading the program to the last file, milliseconds. */
const moments = [150, 250, 350, 450, 600, 800]

const complete = (directory: string): ReadonlyArray<string> => {
  try {
    return readdirSync(join(directory, "generations")).filter((name) => !name.endsWith(".partial"))
  } catch {
    return []
  }
}

it("a killed backup is never taken for a whole one; the next one is whole, and a service restored from it serves its files", async () => {
  using data = temporaryDirectory()
  using target = temporaryDirectory()
  const directory = join(target.path, "backups")
  await using service = await startService(data.path)
  const orders = Array.from({ length: 60 }, (_, n) => service.api.createSpeech(`file ${n}`))
  const ids = await Promise.all(orders)
  for (const id of ids) await service.api.finished(id)
  const env = { KILN_DATA_DIR: data.path }
  for (const afterMs of moments) {
    const before = complete(directory).length
    await using backup = new KilnProcess(["backup", directory, "--json"], env)
    await new Promise((resolve) => setTimeout(resolve, afterMs))
    backup.kill("SIGKILL")
    await backup.ended().catch(() => undefined)
    const whole = complete(directory)
    // It was killed after it had finished, or it does not count.
    expect(whole.length - before).toBeLessThanOrEqual(1)
    const { exit, stderr } = await run(["restore", directory, "--check"])
    expect([exit, stderr.includes("contains no complete backup")]).toEqual(whole.length > 0 ? [0, false] : [1, true])
  }
  const { backup, files } = await runJson(["backup", directory], env)
  expect(files).toBe(ids.length)
  expect(readdirSync(join(directory, "generations"))).toEqual(complete(directory))
  expect((await run(["restore", directory, "--check", "--max-age", "1h"])).exit).toBe(0)

  const to = join(target.path, "restored")
  expect(await runJson(["restore", directory, "--to", to, "--backup", backup])).toMatchObject({ missing_files: [] })
  const refused = await run(["serve"], { KILN_DATA_DIR: to, PORT: "0" })
  expect(refused).toMatchObject({ exit: 1, stderr: expect.stringContaining("kiln adopt --restored") })
  await runJson(["adopt", "--restored"], { KILN_DATA_DIR: to })
  await using restored = await startService(to, {}, service.key)
  const [first = ""] = ids
  expect(await restored.audio(await restored.api.job(first))).toEqual(await service.audio(await service.api.job(first)))
})
