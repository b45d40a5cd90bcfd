import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"

const files = ["image.png", "reply.mp3", "reply.txt", "speech.mp3", "transcript.txt"]

/** A working directory, and one for temporary files. */
const workplace = () => {
  const root = mkdtempSync(join(tmpdir(), "kiln-demo-test-"))
  const [cwd, temporary] = [join(root, "cwd"), join(root, "tmp")]
  mkdirSync(cwd)
  mkdirSync(temporary)
  return { cwd, temporary, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) }
}

/** Runs the demo in a separate process, with environment variables that must not reach its service. */
const start = ({ cwd, temporary }: { readonly cwd: string; readonly temporary: string }) => {
  const child = spawn(process.execPath, ["--conditions=@kiln/source", join(import.meta.dirname, "main.ts")], {
    cwd,
    env: {
      PATH: process.env["PATH"],
      TMPDIR: temporary,
      KILN_ROLE: "worker",
      KILN_DATA_DIR: join(cwd, "data"),
      PORT: "1",
    },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const output = { stdout: "", stderr: "" }
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text))
  return { child, output }
}

const end = async (child: ChildProcess): Promise<unknown> => (await once(child, "close"))[0]

describe("the demo", () => {
  it("runs all four kinds of job and leaves their files", async () => {
    using place = workplace()
    const startedAt = performance.now()
    const { child, output } = start(place)
    expect(await end(child), output.stderr).toBe(0)
    expect(performance.now() - startedAt).toBeLessThan(60_000)
    expect(output.stderr).toBe("")

    for (const kind of ["transcription", "speech synthesis", "voice turn", "image generation"])
      for (const status of ["queued", "done"])
        expect(output.stdout).toMatch(new RegExp(`^${kind} +${status} +\\d+\\.\\d s$`, "m"))
    const results = join(place.cwd, "demo-output")
    expect(readdirSync(results).sort()).toEqual(files)
    for (const file of files) {
      const { length } = readFileSync(join(results, file))
      expect(output.stdout).toContain(`${join(results, file)}  (${length} bytes)\n`)
    }

    expect(readFileSync(join(results, "transcript.txt"), "utf8")).toMatch(/^\S.*4\.1 seconds.*\n$/)
    expect(readFileSync(join(results, "reply.txt"), "utf8")).toMatch(/^\S.*\n$/s)
    for (const file of ["speech.mp3", "reply.mp3"]) {
      const bytes = readFileSync(join(results, file))
      expect(bytes.length).toBeGreaterThan(1_000)
      expect(bytes.readUInt16BE(0) & 0xffe0, "an MPEG frame").toBe(0xffe0)
    }
    const png = readFileSync(join(results, "image.png"))
    expect([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual(["PNG", 1024, 1024])

    // Nothing else is left: no data of the service, and nothing where the user's settings pointed.
    expect(readdirSync(place.temporary)).toEqual([])
    expect(readdirSync(place.cwd)).toEqual(["demo-output"])
  })

  it("says what failed and exits with 1", async () => {
    using place = workplace()
    writeFileSync(join(place.cwd, "demo-output"), "in the way")
    const { child, output } = start(place)
    expect(await end(child)).toBe(1)
    expect(output.stderr).toMatch(/^\nThe demo failed: .*demo-output/)
    expect(readdirSync(place.temporary)).toEqual([])
  })

  it("leaves nothing behind at Ctrl-C", async () => {
    using place = workplace()
    const { child, output } = start(place)
    const url = await new Promise<string>((resolve) =>
      child.stdout.on("data", () => {
        const [, found] = /listens at (\S+)\. Four/.exec(output.stdout) ?? []
        if (found !== undefined) resolve(found)
      }),
    )
    child.kill("SIGINT")
    expect(await end(child)).toBe(130)
    await expect(fetch(url)).rejects.toThrow("fetch failed")
    expect(readdirSync(place.temporary)).toEqual([])
    expect(existsSync(join(place.cwd, "data"))).toBe(false)
  })
})
