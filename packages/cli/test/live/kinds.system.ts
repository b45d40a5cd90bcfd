import { createHash } from "node:crypto"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import {
  answer,
  answerRaw,
  type OpenAiEndpoint,
  type OpenAiStandIn,
  standInApiKey,
  startOpenAiStandIn,
  transcriptOf,
} from "@kiln/testing/openai"
import { run, runJson, serve, temporaryDirectory, wav } from "@kiln/service-lab"
import { patience } from "../crash/support/Lab.ts"
import { exactSum, exactTimes } from "./support/exactSum.ts"
import { download, LiveClient, type LineItem, type LiveJob, type LivePoll } from "./support/LiveClient.ts"
import { openAiEnvironment } from "./support/openAiEnvironment.ts"

/** From a fresh installation to bills, using only the command line and HTTP. */

const prices = {
  input_audio_seconds: "0.000100000000000000000007",
  input_characters: "0.00001500000000000000000003",
  output_tokens: "0.0000200000000000000000011",
  images: "0.0110000000000000000000000013",
} as const
type Meter = keyof typeof prices

const item = (meter: Meter, quantity: number): LineItem => ({
  meter,
  quantity,
  unit_amount: prices[meter],
  amount: exactTimes(prices[meter], quantity),
})

const expectCharged = (poll: LivePoll, ...items: ReadonlyArray<LineItem>) => {
  expect(poll).toMatchObject({ status: "done", error_code: null })
  expect(poll.billing).toEqual({
    status: "charged",
    currency: "eur",
    amount: exactSum(items.map(({ amount }) => amount)),
    line_items: expect.arrayContaining([...items]),
  })
  expect(poll.billing?.line_items).toHaveLength(items.length)
}

/** Never in a log: texts of callers and models, and the key. */
const canary = "canary-7f3a"

describe("live jobs of a fresh installation", patience, () => {
  const data = temporaryDirectory()
  let standIn: OpenAiStandIn
  let kiln: Awaited<ReturnType<typeof serve>>
  let client: LiveClient
  const ledger: Array<readonly [jobId: string, type: string, items: ReadonlyArray<LineItem>]> = []
  const environment = { KILN_DATA_DIR: data.path }
  const command = (line: string) => runJson(line.split(" "), environment)

  beforeAll(async () => {
    standIn = await startOpenAiStandIn()
    const settings = { ...environment, ...openAiEnvironment(standIn), KILN_FIRST_KEY: "off", KILN_RATE_LIMITS: "off" }
    kiln = await serve(settings)
    await command("project create voices")
    const made = "key create --project voices --mode live --scope audio.create --scope images.create"
    client = new LiveClient(kiln.listening.url, (await command(made)).key)
  }, 120_000)
  afterAll(async () => {
    await kiln?.[Symbol.asyncDispose]()
    await standIn?.close()
    data[Symbol.dispose]()
  })

  /** The calls a job made, as [endpoint, idempotency key]. */
  const callsOf = ({ id }: LiveJob): ReadonlyArray<readonly [OpenAiEndpoint | undefined, string | undefined]> =>
    standIn
      .calls()
      .filter(({ headers }) => headers.idempotencyKey?.startsWith(id))
      .map(({ endpoint, headers }) => [endpoint, headers.idempotencyKey])

  /** Returns the stand-in's answer to the same request: answers depend only on the request. */
  const sameAgain = async (path: string, endpoint: "speech" | "image") => {
    const fields = standIn.callsOf(endpoint).at(-1)?.request?.fields
    const response = await fetch(`${standIn.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${standInApiKey}`, "content-type": "application/json" },
      body: JSON.stringify(fields),
    })
    expect(response.status).toBe(200)
    return Buffer.from(await response.arrayBuffer())
  }

  it("are refused until prices and switches are set with the command line", async () => {
    const refusal = await client.post("speech", { input: canary })
    expect([refusal.status, (await refusal.json()).error.details]).toEqual([
      403,
      { missing: ["price:svc-audio", "switch:ai", "switch:audio"] },
    ])
    const audio = `--input-audio-second ${prices.input_audio_seconds} --input-character ${prices.input_characters}`
    await command(`price set svc-audio --currency eur ${audio} --output-token ${prices.output_tokens}`)
    await command(`price set svc-image --currency eur --image ${prices.images}`)
    for (const name of ["svc-audio", "svc-image"]) await command(`price activate ${name}`)
    for (const name of ["ai", "audio", "images"]) await command(`switch on ${name}`)
    expect(standIn.calls()).toEqual([])
  })

  it("speech: the bytes of the provider, and every code point charged", async () => {
    const input = `Grüße, 世界 🎧! ${canary} `
    const job = await client.create("speech", { input, voice: "nova" })
    const poll = await client.finished(job)
    const items = [item("input_characters", [...input].length)]
    expectCharged(poll, ...items)
    ledger.push([job.id, "speech_synthesis", items])
    expect(callsOf(job)).toEqual([["speech", `${job.id}-speech`]])
    expect(standIn.callsOf("speech").at(-1)?.request).toMatchObject({ input, voice: "nova", model: "tts-1" })
    const { bytes, type } = await download(poll.output?.["audio_url"])
    expect(type).toBe("audio/mpeg")
    expect(bytes.equals(await sameAgain("/audio/speech", "speech"))).toBe(true)
  })

  it("speech in another container keeps it", async () => {
    const data = wav(2)
    standIn.script("speech", answer({ data, mediaType: "audio/wav" }))
    const job = await client.speak(canary)
    const poll = await client.finished(job)
    ledger.push([job.id, "speech_synthesis", [item("input_characters", canary.length)]])
    const { bytes, type } = await download(poll.output?.["audio_url"])
    expect([type, bytes.equals(data)]).toEqual(["audio/wav", true])
  })

  const transcribed = async (seconds: number, billed: number) => {
    const file = wav(seconds, 1_000)
    const job = await client.create("transcription", { upload_id: await client.uploaded(seconds, file) })
    const poll = await client.finished(job)
    const items = [item("input_audio_seconds", billed)]
    expectCharged(poll, ...items)
    ledger.push([job.id, "transcription", items])
    expect(callsOf(job)).toEqual([["transcription", `${job.id}-transcription`]])
    const sha256 = createHash("sha256").update(file).digest("hex")
    expect(standIn.callsOf("transcription").at(-1)?.request?.file).toMatchObject({ sha256, filename: "audio.wav" })
    return { poll, transcript: transcriptOf({ sha256 }) }
  }

  it("transcription: the transcript, charged by the seconds of the file, rounded up", async () => {
    const { poll, transcript } = await transcribed(2.3, 3)
    expect(poll).toMatchObject({ output: { transcript }, warning_code: null })
  })

  it("transcription: a provider that reports no length changes nothing", async () => {
    standIn.script(
      "transcription",
      answerRaw({ headers: { "content-type": "application/json" }, body: JSON.stringify({ text: canary }) }),
    )
    const { poll } = await transcribed(4, 4)
    expect(poll).toMatchObject({ output: { transcript: canary }, warning_code: null })
  })

  it.each([7.2, 0.5])("transcription: another length from the provider, %d s, changes nothing", async (seconds) => {
    standIn.script("transcription", answer({ seconds }))
    expect((await transcribed(2.3, 3)).poll.warning_code).toBe(null)
  })

  it("transcription: silence is charged too", async () => {
    standIn.script("transcription", answer({ text: "" }))
    const { poll } = await transcribed(1, 1)
    expect(poll).toMatchObject({ output: { transcript: "" }, warning_code: "no_speech_detected" })
  })

  const turned = async (limit: number, tokens: number) => {
    const file = wav(1.5, 1_000)
    const upload_id = await client.uploaded(1.5, file)
    const job = await client.create("turn", { upload_id, max_output_tokens: limit, instructions: canary })
    const poll = await client.finished(job)
    const items = [item("input_audio_seconds", 2), item("output_tokens", tokens)]
    expectCharged(poll, ...items)
    ledger.push([job.id, "voice_turn", items])
    expect(callsOf(job)).toEqual([
      ["transcription", `${job.id}-transcription`],
      ["chat", `${job.id}-reply`],
      ["speech", `${job.id}-speech`],
    ])
    const heard = transcriptOf({ sha256: createHash("sha256").update(file).digest("hex") })
    const { maxOutputTokens, messages } = standIn.callsOf("chat").at(-1)?.request ?? {}
    expect(maxOutputTokens).toBe(limit)
    expect(messages?.map(({ text }) => text)).toEqual([canary, heard])
    return { poll, heard }
  }

  it("voice turn: three calls, each with its own key, charged by input and output", async () => {
    const { heard, poll } = await turned(100, 11)
    expect(poll).toMatchObject({ output: { text: `You said: ${heard}` }, warning_code: null })
    expect(standIn.callsOf("speech").at(-1)?.request?.input).toBe(poll.output?.["text"])
    const { bytes, type } = await download(poll.output?.["audio_url"])
    expect([type, bytes.equals(await sameAgain("/audio/speech", "speech"))]).toEqual(["audio/mpeg", true])
  })

  it("voice turn: cut at its limit, and never charged for more than that", async () => {
    const { heard, poll } = await turned(4, 4)
    expect(poll).toMatchObject({
      output: { text: `You said: ${heard.split(" ").slice(0, 2).join(" ")}` },
      warning_code: "output_truncated",
    })
    standIn.script("chat", answer({ text: canary, outputTokens: 5_000 }))
    expect((await turned(7, 7)).poll.output?.["text"]).toBe(canary)
  })

  const drawn = async () => {
    const job = await client.create("image", { prompt: `a kiln, ${canary}` })
    const poll = await client.finished(job)
    expect(Object.keys(poll).toSorted(), "and nothing of money").toEqual(["id", "output", "status"])
    expect(poll.output).toMatchObject({ format: "png", size: "1024x1024" })
    ledger.push([job.id, "image_generation", [item("images", 1)]])
    expect(callsOf(job)[0]).toEqual(["image", `${job.id}-image`])
    const file = await download(poll.output?.["image_url"])
    expect(file.type).toBe("image/png")
    return file.bytes
  }

  it("image: requested once, with the cheapest options, and stored unchanged; only the ledger shows its cost", async () => {
    const bytes = await drawn()
    expect(standIn.callsOf("image").at(-1)?.request?.fields).toMatchObject({
      model: "gpt-image-1-mini",
      size: "1024x1024",
      quality: "low",
      n: 1,
    })
    const answered = JSON.parse((await sameAgain("/images/generations", "image")).toString())
    expect(bytes.toString("base64") === answered.data[0].b64_json).toBe(true)
  })

  it("image: one returned as a URL of the provider is fetched", async () => {
    const url = new URL(`/files/${"a1".repeat(32)}-1024x1024.png`, standIn.url).href
    standIn.script("image", answer({ url }))
    const bytes = await drawn()
    expect(bytes.equals((await download(url)).bytes)).toBe(true)
  })

  it("are in the ledger as they were polled, each once, exactly", async () => {
    const { exit, stderr, stdout } = await run(
      ["billing", "export", "--from", "2000-01-01", "--to", "9000-01-01"],
      environment,
    )
    expect(exit).toBe(0)
    expect(stderr).toMatch(/^The export ends at /)
    const lines = stdout.trimEnd().split("\n")
    const rows = lines.map(
      (line) => JSON.parse(line) as { job_id: string; type: string; amount: string; line_items: [] },
    )
    expect(rows.map(({ job_id, line_items, type }) => [job_id, type, line_items])).toEqual(ledger)
    const items = ledger.flatMap(([, , each]) => each)
    expect(exactSum(rows.map(({ amount }) => amount))).toBe(exactSum(items.map(({ amount }) => amount)))
  })

  it("leave neither texts nor the key in the server's output", () => {
    const said = kiln.stdout + kiln.stderr
    expect(said).toContain(kiln.listening.url)
    for (const secret of [canary, standInApiKey, "this is what was said", "You said"])
      expect(said).not.toContain(secret)
  })
})
