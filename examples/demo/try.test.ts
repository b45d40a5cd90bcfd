import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, it } from "vitest"
import { startService } from "./service.ts"

const directory = mkdtempSync(join(tmpdir(), "kiln-try-"))
afterAll(() => rmSync(directory, { recursive: true }))

const runTry = (...args: ReadonlyArray<string>): Promise<{ exit: number | null; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [join(import.meta.dirname, "try.ts"), ...args],
      { cwd: directory },
      (_, stdout, stderr) => resolve({ exit: child.exitCode, stdout, stderr }),
    )
  })

it("sends three jobs, prints every request and writes the results", { timeout: 60_000 }, async () => {
  const service = startService()
  try {
    const { key, url } = await service.ready
    const { exit, stderr, stdout } = await runTry(key, url)
    expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" })
    for (const path of ["/v1/audio/transcriptions", "/v1/audio/speech", "/v1/images/generations"])
      expect(stdout).toMatch(new RegExp(`^POST ${path} .*\\n  202 \\{"id":"\\w+","status":"queued"\\}$`, "m"))
    expect(stdout).toContain("4.1 seconds")
    expect(readFileSync(join(directory, "speech.mp3")).readUInt16BE(0) & 0xffe0).toBe(0xffe0)
    expect(readFileSync(join(directory, "image.png")).subarray(1, 4).toString()).toBe("PNG")

    const refused = await runTry(`${key.slice(0, -1)}${key.endsWith("0") ? 1 : 0}`, url)
    expect(refused.exit).toBe(1)
    expect(refused.stdout).toContain("401")
  } finally {
    await service.stop()
  }
})

it("says what is missing", { timeout: 60_000 }, async () => {
  expect(await runTry()).toMatchObject({ exit: 1, stderr: expect.stringContaining("pass an API key") })
  const away = await runTry("kiln_test_x", "http://127.0.0.1:9")
  expect(away).toMatchObject({ exit: 1, stderr: expect.stringContaining("Is the service running at") })
})
