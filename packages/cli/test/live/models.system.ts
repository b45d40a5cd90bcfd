import { expect, it } from "vitest"
import { startOpenAiStandIn } from "@kiln/testing/openai"
import { until } from "@kiln/service-lab"
import { Lab, patience } from "../crash/support/Lab.ts"
import { LiveClient, type LiveKind } from "./support/LiveClient.ts"
import { labEnvironment } from "./support/openAiEnvironment.ts"

it("a self-hosted server: no key, models by name, and ports without a model are not served", patience, async () => {
  await using standIn = await startOpenAiStandIn({ apiKeys: [], models: ["kokoro", "faster-whisper-small"] })
  await using lab = await Lab.open()
  const env = {
    ...labEnvironment(standIn),
    KILN_OPENAI_API_KEY: "",
    KILN_OPENAI_SPEECH_MODEL: "kokoro",
    KILN_OPENAI_TRANSCRIPTION_MODEL: "faster-whisper-small",
    KILN_OPENAI_REPLY_MODEL: "off",
    KILN_OPENAI_IMAGE_MODEL: "off",
  }
  const server = await lab.start({ env })
  const client = new LiveClient(server.listening.url, lab.live.key)
  for (const kind of ["speech", "transcription"] as const)
    expect(await client.finished(await client.any(kind, "Hello."))).toMatchObject({ billing: { status: "charged" } })
  expect(standIn.calls().map(({ headers, model }) => [model, headers.authorization])).toEqual([
    ["kokoro", false],
    ["faster-whisper-small", false],
  ])

  const missing = async (kind: LiveKind, body: object) => {
    const response = await client.post(kind, body)
    expect(response.status).toBe(403)
    return (await response.json()).error.details.missing
  }
  const turn = { upload_id: await client.uploaded(1), max_output_tokens: 5 }
  expect(await missing("turn", turn)).toEqual(["provider:voice_turn"])
  expect(await missing("image", { prompt: "a kiln" })).toEqual(["provider:image_generation"])
  const ready = await (await fetch(`${server.listening.url}/readyz`)).json()
  expect(Object.keys(ready.details.providers).toSorted()).toEqual(["speech", "transcription"])

  // Another worker that has them serves the whole installation.
  await lab.startWorker({ env: { ...env, KILN_OPENAI_REPLY_MODEL: "", KILN_OPENAI_IMAGE_MODEL: "" } })
  const accepted = await until(async () => {
    const response = await client.post("turn", turn)
    return response.status === 202 ? response : undefined
  })
  expect(await accepted.json()).toMatchObject({ type: "voice_turn", mode: "live", status: "queued" })
})
