import { execFile } from "node:child_process"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { KilnProcess, serve, temporaryDirectory, wav } from "@kiln/service-lab"
import { runInProcess } from "./support/runInProcess.ts"

describe("kiln try, stopped by a signal", () => {
  it("removes its own service, and ends by that signal", async () => {
    using place = temporaryDirectory()
    await using kiln = new KilnProcess(["try", "speak", "sandbox:delay:60", "-o", join(place.path, "x.mp3")], {
      TMPDIR: place.path,
    })
    await kiln.says(/job_\w+ queued\n/, "stderr")
    expect(readdirSync(place.path)).toEqual([expect.stringMatching(/^kiln-try-/)])
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe("SIGTERM")
    expect(readdirSync(place.path)).toEqual([])
  })

  it("leaves the job of a running service running, and says how to watch it", async () => {
    using data = temporaryDirectory()
    await using server = await serve({ KILN_DATA_DIR: data.path })
    const { first_key, url } = server.listening
    await using kiln = new KilnProcess(["try", "speak", "sandbox:delay:60", "-o", join(data.path, "x.mp3")], {
      KILN_URL: url,
      KILN_API_KEY: first_key?.key ?? "",
    })
    const [, id] = await kiln.says(/(job_\w+) queued\n/, "stderr")
    kiln.kill("SIGINT")
    const { exit, stderr } = await kiln.ended()
    expect(exit).toBe("SIGINT")
    expect(stderr).toContain(`${id} keeps running: kiln try job ${id} --watch --url ${url}\n`)
  })
})

describe("kiln try --curl", () => {
  it("prints commands that a shell runs: they create the job, wait for it and save its file", async () => {
    using data = temporaryDirectory()
    await using server = await serve({ KILN_DATA_DIR: join(data.path, "data") })
    const { first_key, url } = server.listening
    const recording = join(data.path, "it's a question.wav")
    writeFileSync(recording, wav(3, 8_000))
    const at = (name: string) => join(data.path, name)
    /** Pastes what a command prints, and returns the last state of the job. */
    const paste = async (shell: string, ...args: ReadonlyArray<string>) => {
      const printed = await runInProcess(["try", ...args, "--curl", "--url", url, "--key", "kiln_test_secret"])
      expect(printed).toMatchObject({ exit: 0, stderr: "" })
      expect(printed.stdout).not.toContain("secret")
      const env = { ...process.env, KILN_API_KEY: first_key?.key ?? "" }
      const { stderr, stdout } = await promisify(execFile)(shell, ["-c", printed.stdout], { cwd: data.path, env })
      expect(stderr).toBe("")
      return JSON.parse(stdout.trim().split("\n").at(-1) ?? "")
    }

    const spoken = await paste("sh", "speak", `it's "$HOME" \`ls\` \\ é`, "--voice", "nova", "-o", "hello.mp3")
    expect(spoken).toMatchObject({ status: "done" })
    expect(readFileSync(at("hello.mp3")).readUInt16BE(0) & 0xffe0).toBe(0xffe0)
    expect(await paste("bash", "transcribe", recording)).toMatchObject({
      status: "done",
      output: { transcript: expect.stringContaining("3.0 seconds") },
    })
    const turn = await paste("sh", "turn", recording, "--instructions", "don't", "-o", "answer.mp3")
    expect(turn).toMatchObject({ status: "done", output: { text: expect.any(String) } })
    expect(readFileSync(at("answer.mp3")).length).toBeGreaterThan(100)
    const drawn = await paste("bash", "image", "a red lighthouse")
    expect(
      readFileSync(at(`${drawn.id}.png`))
        .subarray(1, 4)
        .toString(),
    ).toBe("PNG")

    // A job's path depends on its type, which its id does not tell.
    for (const { id } of [spoken, drawn])
      expect(await paste("sh", "job", id, "--watch", "-o", `${id}.copy`)).toMatchObject({ id, status: "done" })
    expect(readFileSync(at(`${drawn.id}.copy`))).toEqual(readFileSync(at(`${drawn.id}.png`)))
    expect(await paste("sh", "job", drawn.id)).toMatchObject({ id: drawn.id, status: "done" })
  })
})
