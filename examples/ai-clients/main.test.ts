import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import { afterAll, beforeAll, expect, it } from "vitest"

const run = promisify(execFile)
const kiln = join(import.meta.dirname, "../../packages/cli/bin/kiln.mjs")
const source = "--conditions=@kiln/source"

let env: Record<string, string | undefined>
let stop: () => Promise<void>

beforeAll(async () => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-ai-clients-"))
  const settings = { PORT: "0", KILN_DATA_DIR: directory, KILN_DRAIN_SECONDS: "0", KILN_OPENAI_API: "on" }
  const service = spawn(process.execPath, [source, kiln, "serve", "--json"], {
    env: { PATH: process.env["PATH"], ...settings },
    stdio: ["ignore", "pipe", "ignore"],
  })
  const [line] = await once(createInterface({ input: service.stdout }), "line")
  const { first_key, url } = JSON.parse(String(line))
  env = { PATH: process.env["PATH"], KILN_URL: url, KILN_API_KEY: first_key.key }
  stop = async () => {
    const exited = once(service, "exit")
    service.kill("SIGTERM")
    await exited
    await rm(directory, { recursive: true, force: true })
  }
})
afterAll(() => stop())

const transcript = "Sandbox transcript of an mp3 file of 4.2 seconds."

it.each([
  ["aiSdk.ts", ["audio/mpeg", transcript, "image/png image/png"]],
  ["openAi.ts", ["audio/mpeg", transcript, "1 string"]],
  ["langChain.ts", ["image/png"]],
])("%s runs", async (program, lines) => {
  const { stdout } = await run(process.execPath, [source, join(import.meta.dirname, program)], { env })
  expect(stdout.trim().split("\n")).toEqual(lines)
})
