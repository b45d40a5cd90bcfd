import { setTimeout as sleep } from "node:timers/promises"
import { run, runJson, serve, temporaryDirectory, until } from "@kiln/service-lab"
import OpenAI from "openai"
import { describe, expect, it } from "vitest"

const settings = (directory: string) => ({
  KILN_DATA_DIR: directory,
  KILN_OPENAI_API: "on",
  KILN_PROVIDER: "sandbox",
  KILN_FIRST_KEY: "print",
  KILN_RATE_LIMITS: "off",
})

const openLive = async (environment: Readonly<Record<string, string>>) => {
  await runJson(
    [
      "price",
      "set",
      "svc-audio",
      "--currency",
      "usd",
      "--input-audio-second",
      "0.01",
      "--input-character",
      "0.01",
      "--output-token",
      "0.01",
    ],
    environment,
  )
  await runJson(["price", "set", "svc-image", "--currency", "usd", "--image", "0.01"], environment)
  for (const name of ["svc-audio", "svc-image"]) await runJson(["price", "activate", name], environment)
  for (const name of ["ai", "audio", "images"]) await runJson(["switch", "on", name], environment)
  const scopes = ["--scope", "audio.create", "--scope", "images.create"]
  return (await runJson(["key", "create", "--project", "default", "--mode", "live", ...scopes], environment))
    .key as string
}

describe("the official openai client", () => {
  it("retries after a killed server: one job, one charge, the same bytes", { timeout: 240_000 }, async () => {
    using directory = temporaryDirectory()
    const environment = settings(directory.path)
    const first = await serve(environment)
    const live = await openLive(environment)
    const port = new URL(first.listening.url).port
    const openai = new OpenAI({ baseURL: `${first.listening.url}/openai/v1`, apiKey: live, maxRetries: 8 })
    // A paused kind, so that the server dies while the request waits.
    await runJson(["queue", "pause", "image_generation"], environment)
    // Another process reads the pause within a second.
    await sleep(2_000)
    const drawing = openai.images.generate({ model: "gpt-image-1", prompt: "A kiln" })
    const jobs = async () =>
      (await runJson(["job", "list"], environment)).jobs as ReadonlyArray<{
        readonly status: string
      }>
    await until(async () => ((await jobs()).length === 1 ? true : undefined))
    await first.crash()
    await runJson(["queue", "resume", "image_generation"], environment)
    await using second = await serve({ ...environment, PORT: port })
    const [image] = (await drawing).data ?? []
    expect(second.listening.url).toBe(first.listening.url)
    expect(await jobs()).toMatchObject([{ status: "done" }])
    const export_ = ["billing", "export", "--from", "2020-01-01", "--to", "2100-01-01", "--format", "jsonl"]
    expect((await run(export_, environment)).stdout.trim().split("\n")).toHaveLength(1)
    // The client got the bytes of that job: its file, as the service itself delivers it.
    const id = /job_[a-z0-9]{20,}/.exec(JSON.stringify(await jobs()))?.[0] ?? ""
    const headers = { authorization: `Bearer ${live}` }
    const polled = await fetch(`${second.listening.url}/v1/images/jobs/${id}`, { headers })
    const { output } = (await polled.json()) as { readonly output: { readonly image_url: string } }
    const file = Buffer.from(await (await fetch(output.image_url)).arrayBuffer())
    expect(file.subarray(1, 4).toString()).toBe("PNG")
    expect(Buffer.from(image?.b64_json ?? "", "base64").equals(file)).toBe(true)
    // The same request as a first attempt is another job.
    await openai.images.generate({ model: "gpt-image-1", prompt: "A kiln" })
    expect(await jobs()).toHaveLength(2)
  })
})
