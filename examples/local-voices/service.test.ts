import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { expect, it } from "vitest"
import { describeWith } from "./support/needs.ts"
import { understood } from "./support/words.ts"

const launcher = join(import.meta.dirname, "../../packages/cli/bin/kiln.mjs")
const config = join(import.meta.dirname, "kiln.config.ts")
const sentence = "I think that she would like to go to the city in the morning."

/** Runs `kiln` with these providers on a new data directory. */
class Installation implements AsyncDisposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "kiln-voices-service-"))
  readonly #running: Array<ChildProcess> = []

  #start(args: ReadonlyArray<string>) {
    const env = {
      PATH: process.env["PATH"],
      KILN_DATA_DIR: join(this.#directory, "data"),
      KILN_CONFIG: config,
      PORT: "0",
    }
    const child = spawn(process.execPath, [launcher, ...args, "--json"], { env, stdio: ["ignore", "pipe", "pipe"] })
    this.#running.push(child)
    const said = { stderr: "" }
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said.stderr += text))
    return { child, said, ended: once(child, "close") }
  }

  /** Runs a command and waits for its exit. */
  async command(...args: ReadonlyArray<string>) {
    const { child, ended, said } = this.#start(args)
    let stdout = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
    expect((await ended)[0], said.stderr).toBe(0)
    return JSON.parse(stdout)
  }

  /** Starts the service and returns its address. */
  async serve(): Promise<string> {
    const { child, said } = this.#start(["serve"])
    for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line).url
    throw new Error(`the service did not start: ${said.stderr}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#running) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const ended = once(child, "exit")
      child.kill("SIGKILL")
      await ended
    }
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** Sends the requests of this test with a live key. */
const clientOf = (url: string, key: string) => {
  const request = async (path: string, method = "GET", body?: object) => {
    const headers = {
      Authorization: `Bearer ${key}`,
      ...(body && { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() }),
    }
    const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const answer = await response.json()
    expect(response.ok, JSON.stringify(answer)).toBe(true)
    return answer
  }
  return {
    upload: async (wav: Uint8Array): Promise<string> => {
      const created = await request("/v1/audio/uploads", "POST", { format: "wav", declared_seconds: 4 })
      const headers = { "Content-Type": "audio/wav" }
      const sent = await fetch(created.upload_url, { method: "PUT", body: Buffer.from(wav), headers })
      expect(sent.status).toBe(204)
      return created.id
    },
    /** Creates a job, polls until it is finished and returns it. */
    run: async (path: string, body: object) => {
      const created = await request(path, "POST", body)
      expect(created.mode).toBe("live")
      while (true) {
        const job = await request(`/v1/jobs/${created.id}`)
        if (job.status === "done" || job.status === "failed") return job
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    },
    download: async (fileUrl: string) => {
      const response = await fetch(fileUrl)
      const bytes = new Uint8Array(await response.arrayBuffer())
      return { bytes, mediaType: response.headers.get("content-type") }
    },
  }
}

const audioPrice = ["--input-audio-second", "0", "--input-character", "0.00001", "--output-token", "0.001"]

/** Prices and switches as on the command line, and a live key. */
const open = async (installation: Installation): Promise<string> => {
  await installation.command("price", "set", "svc-audio", ...audioPrice)
  await installation.command("price", "activate", "svc-audio")
  await installation.command("switch", "on", "ai")
  await installation.command("switch", "on", "audio")
  await installation.command("project", "create", "voices")
  const flags = ["--project", "voices", "--mode", "live", "--scope", "audio.create"]
  return (await installation.command("key", "create", ...flags)).key
}

describeWith(["espeak-ng", "pocketsphinx with its English model"], "the service with these providers", () => {
  it("speaks, transcribes and makes voice turns for a live key", { timeout: 180_000 }, async () => {
    await using installation = new Installation()
    const key = await open(installation)
    const client = clientOf(await installation.serve(), key)

    const spoken = await client.run("/v1/audio/speech", { input: sentence })
    expect(spoken).toMatchObject({ status: "done", billing: { status: "charged", amount: "0.00061" } })
    const { bytes: wav, mediaType } = await client.download(spoken.output.audio_url)
    expect(mediaType).toBe("audio/wav")

    const transcribed = await client.run("/v1/audio/transcriptions", { upload_id: await client.upload(wav) })
    expect(transcribed).toMatchObject({ status: "done", error_code: null, billing: { status: "charged" } })
    const { transcript } = transcribed.output
    expect(understood(sentence, transcript), transcript).toBeGreaterThanOrEqual(0.8)

    const turn = { upload_id: await client.upload(wav), max_output_tokens: 5, voice: "echo" }
    const turned = await client.run("/v1/voice/turns", turn)
    expect(turned).toMatchObject({
      status: "done",
      warning_code: "output_truncated",
      output: { text: expect.stringMatching(/^(\S+ ){4}\S+$/) },
      billing: { status: "charged", amount: "0.005" },
    })
    const answer = await client.download(turned.output.audio_url)
    expect(answer.bytes.length).toBeGreaterThan(20_000)
  })
})
