import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { parseApiKey } from "@kiln/core/domain"
import { Api } from "./support/Api.ts"
import { hasTerminal, inTerminal } from "./support/inTerminal.ts"
import { KilnProcess, run, runJson, serve, startLimitMs, temporaryDirectory } from "@kiln/service-lab"

const shell = promisify(execFile)
const repository = join(import.meta.dirname, "../../..")

/** Any part of a secret key; the prefix alone is in no other output of `serve`. */
const secret = /kiln_(?:test|live)_\w+/

/** Starts `serve` into a pipe, waits until it listens, stops it, and returns its output. */
const piped = async (environment: Readonly<Record<string, string>>) => {
  await using kiln = new KilnProcess(["serve"], { PORT: "0", ...environment })
  await kiln.says(/listening at .*\n[^]*\n$/, "stdout", startLimitMs)
  kiln.kill("SIGTERM")
  const { exit, stderr, stdout } = await kiln.ended()
  expect(exit).toBe(0)
  return { stdout, stderr }
}

describe("the first key", () => {
  it("is not created if standard output is a pipe: one line says how to create one, and that command works", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const { stderr, stdout } = await piped(env)
    expect(stdout + stderr).not.toMatch(secret)
    expect(await runJson(["key", "list"], env)).toEqual({ keys: [] })

    const told = stdout.split("\n").filter((line) => line.includes("key create"))
    expect(told).toHaveLength(1)
    const [command = ""] = /npx .*$/.exec(told[0] ?? "") ?? []
    const made = await shell("sh", ["-c", `${command} --json`], { cwd: repository, env: { ...process.env, ...env } })
    const { key } = JSON.parse(made.stdout.slice(made.stdout.indexOf("{")))
    expect(parseApiKey(key)).toEqual({ mode: "test" })
    await using kiln = await serve(env)
    expect(kiln.listening.first_key).toBeNull()
    expect((await new Api(kiln.listening.url, key).speak("Made by hand.")).status).toBe(202)
  })

  it("is never printed to a pipe, however often kiln starts, and a later start with --json creates it", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    for (let start = 0; start < 2; start++) {
      const { stderr, stdout } = await piped(env)
      expect(stdout + stderr).not.toMatch(secret)
      expect(stdout).toMatch(/^No API keys exist\. .*: \S.* key create --project default --mode test /m)
    }
    await using kiln = await serve(env)
    const { projects } = await runJson(["project", "list"], env)
    expect(projects).toMatchObject([{ name: "default", project_id: kiln.listening.first_key?.project_id }])
    expect((await new Api(kiln.listening.url, kiln.listening.first_key?.key ?? "").speak("Late.")).status).toBe(202)
  })

  it("is printed to a pipe with KILN_FIRST_KEY=print, and only at the first start", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path, KILN_FIRST_KEY: "print" }
    const first = await piped(env)
    expect(first.stdout).toMatch(/^ {2}kiln_test_\w{49}$/m)
    expect(first.stderr).not.toMatch(secret)
    const second = await piped(env)
    expect(second.stdout + second.stderr).not.toMatch(secret)
  })

  it("is not created with KILN_FIRST_KEY=off, and neither is the project", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const { stdout } = await piped({ ...env, KILN_FIRST_KEY: "off" })
    expect(stdout).not.toContain("key create")
    expect(await runJson(["project", "list"], env)).toEqual({ projects: [] })
  })

  it("is shown once on a terminal", async ({ skip }) => {
    if (!hasTerminal) return skip("no `script` of util-linux here to make a terminal with")
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path, PORT: "0" }
    {
      await using kiln = inTerminal(["serve"], env)
      const [, url = ""] = await kiln.says(/listening at (http:\/\/127\.0\.0\.1:\d+)\r\n[^]*jobs\/JOB_ID .*\r\n/)
      const key = /^ {2}(kiln_test_\w+)\r$/m.exec(kiln.stdout)?.[1] ?? ""
      expect((await new Api(url, key).speak("Read from a screen.")).status).toBe(202)
    }
    await using again = inTerminal(["serve"], env)
    await again.says(/docs\r\n/)
    expect(again.stdout).not.toMatch(secret)
  })

  it("is shown on a terminal even after a start into a pipe", async ({ skip }) => {
    if (!hasTerminal) return skip("no `script` of util-linux here to make a terminal with")
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path, PORT: "0" }
    await piped(env)
    await using kiln = inTerminal(["serve"], env)
    const [, url = ""] = await kiln.says(/listening at (http:\/\/127\.0\.0\.1:\d+)\r\n[^]*jobs\/JOB_ID .*\r\n/)
    const key = /^ {2}(kiln_test_\w+)\r$/m.exec(kiln.stdout)?.[1] ?? ""
    expect((await new Api(url, key).speak("Read from a screen.")).status).toBe(202)
  })

  it("is configured with on, print or off", async () => {
    const { exit, stderr } = await run(["serve"], { KILN_FIRST_KEY: "terminal" })
    expect({ exit, stderr }).toEqual({ exit: 2, stderr: "kiln: KILN_FIRST_KEY must be on, print or off\n" })
  })
})
