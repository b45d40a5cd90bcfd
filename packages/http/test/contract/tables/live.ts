import { expect } from "vitest"
import type { Api } from "../support/Api.ts"
import { type Key, wav } from "@kiln/service-lab"
import { activate, audioPrice, everythingOn, pending, setPrice, turnSwitch, whilePaused } from "../support/board.ts"
import { row, rows, table, tableInTurn } from "../support/tables.ts"
import { expectReplay } from "./idempotency.ts"

/** Live jobs: their prerequisites, and what happens to them when one is turned off. */

export const liveSettings = { live: true, engine: { concurrency: 1 } } as const
export const forcedOffSettings = { live: true, engine: { forcedOff: ["ai"] } } as const

const unknownUpload = "upl_00000000000000000000000000"
const requests = [
  {
    type: "transcription",
    path: "/v1/audio/transcriptions",
    json: { upload_id: unknownUpload },
    price: "svc-audio",
    own: "audio",
  },
  { type: "speech_synthesis", path: "/v1/audio/speech", json: { input: "x" }, price: "svc-audio", own: "audio" },
  {
    type: "voice_turn",
    path: "/v1/voice/turns",
    json: { upload_id: unknownUpload, max_output_tokens: 1 },
    price: "svc-audio",
    own: "audio",
  },
  {
    type: "image_generation",
    path: "/v1/images/generations",
    json: { prompt: "x" },
    price: "svc-image",
    own: "images",
  },
] as const

const expectMissing = async (
  api: Api,
  key: Key,
  request: { readonly path: string; readonly json: unknown },
  missing: ReadonlyArray<string>,
) => {
  const answer = await api.post(request.path, request.json, { key })
  expect(answer.error).toMatchObject({ code: "live_not_active", param: null })
  expect(answer.error.details).toEqual({ missing })
  expect(answer.header("retry-after")).toBeUndefined()
}

/** On a fresh installation. */
export const liveNothing = table(
  "live, nothing active",
  rows(
    requests,
    ({ type }) => `${type}: everything is missing, in order`,
    async (api, request) => {
      await expectMissing(api, await api.newKey({ mode: "live" }), request, [
        `price:${request.price}`,
        "switch:ai",
        `switch:${request.own}`,
        `provider:${request.type}`,
      ])
    },
  ),
  row("uploads need no gate, and their file waits", async (api) => {
    const key = await api.newKey({ mode: "live" })
    const upload_id = await api.uploaded(wav(1), { key })
    expect((await api.post("/v1/audio/transcriptions", { upload_id }, { key })).code).toBe("live_not_active")
  }),
)

/** The environment's `off` against a board with everything on. */
export const liveForcedOff = tableInTurn(
  "live, a switch forced off",
  row("the environment's off wins over the database", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    for (const request of requests)
      await api.until(
        { method: "POST", path: request.path, json: request.json, key },
        (answer) =>
          answer.error.details?.missing !== undefined && !JSON.stringify(answer.error.details).includes("provider"),
      )
    for (const request of requests) await expectMissing(api, key, request, ["switch:ai"])
  }),
)

const gates = row(
  "prerequisites fall away one by one, in their order, until jobs are accepted; the key stays free until then",
  async (api) => {
    const key = await api.newKey({ mode: "live" })
    const speech = { path: "/v1/audio/speech", json: { input: "x" } }
    const image = { path: "/v1/images/generations", json: { prompt: "x" } }
    const headers = { "idempotency-key": "patient" }
    await api.until({ method: "POST", key, ...image }, (answer) => !answer.text.includes("provider:"))
    await expectMissing(api, key, speech, ["price:svc-audio", "switch:ai", "switch:audio"])
    await turnSwitch(api, "audio", true)
    await expectMissing(api, key, speech, ["price:svc-audio", "switch:ai"])
    await setPrice(api, "svc-audio", audioPrice)
    await expectMissing(api, key, speech, ["price:svc-audio", "switch:ai"])
    await activate(api, "svc-audio")
    await expectMissing(api, key, speech, ["switch:ai"])
    await expectMissing(api, key, image, ["price:svc-image", "switch:ai", "switch:images"])
    expect((await api.post(speech.path, speech.json, { key, headers })).code).toBe("live_not_active")
    await turnSwitch(api, "ai", true)
    await expectMissing(api, key, image, ["price:svc-image", "switch:images"])
    const accepted = await api.post(speech.path, speech.json, { key, headers })
    expect([accepted.status, accepted.header("idempotency-replayed"), accepted.json.mode]).toEqual([
      202,
      undefined,
      "live",
    ])
    await setPrice(api, "svc-image", { images: "0.011" })
    await activate(api, "svc-image")
    await turnSwitch(api, "images", true)
    expect((await api.post(image.path, image.json, { key })).json).toMatchObject({
      type: "image_generation",
      mode: "live",
      status: "queued",
    })
  },
)

const switchedOff = row(
  "switched off after its creation, a job waits until it is on again; a replay finds it, a new one is refused",
  async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const headers = { "idempotency-key": "gated" }
    // A switch takes effect within a second: no worker begins the job before that.
    const job = await whilePaused(api, ["speech_synthesis"], async () => {
      const queued = await api.job("/v1/audio/speech", { input: "abcd" }, { key, headers })
      await turnSwitch(api, "audio", false)
      return queued
    })
    for (const end = Date.now() + 1_200; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 100)))
      expect((await api.quietly({ path: job.path, key })).json).toMatchObject({ status: "queued", billing: pending })
    expectReplay(await api.post("/v1/audio/speech", { input: "abcd" }, { key, headers }), job.answer)
    expect((await api.post("/v1/audio/speech", { input: "other" }, { key, headers })).code).toBe(
      "idempotency_key_reused",
    )
    await expectMissing(api, key, { path: "/v1/audio/speech", json: { input: "new" } }, ["switch:audio"])
    await turnSwitch(api, "audio", true)
    expect((await api.finished(job.path, key)).billing.status).toBe("charged")
  },
)

const otherMode = row(
  "a test key's upload does not exist for a live key of the same project, nor the other way round",
  async (api) => {
    await everythingOn(api)
    const test = await api.key()
    const live = await api.newKey({ besides: test, mode: "live" })
    for (const [owner, stranger] of [
      [test, live],
      [live, test],
    ] as const) {
      const upload_id = await api.uploaded(wav(1), { key: owner })
      const [foreign, unknown] = [
        await api.post("/v1/audio/transcriptions", { upload_id }, { key: stranger }),
        await api.post("/v1/audio/transcriptions", { upload_id: unknownUpload }, { key: stranger }),
      ]
      expect(foreign.code).toBe("upload_not_found")
      expect(foreign.comparable).toBe(unknown.comparable)
      const own = await api.job("/v1/audio/transcriptions", { upload_id }, { key: owner })
      await api.finished(own.path, owner)
    }
  },
)

export const live = tableInTurn("live", gates, switchedOff, otherMode)
