import { expect } from "vitest"
import { wav } from "@kiln/service-lab"
import { capDay, everythingOn } from "../support/board.ts"
import { row, tableInTurn } from "../support/tables.ts"
import { expectReplay } from "./idempotency.ts"

/** What a live job may cost at most, in the prices of `everythingOn`: 0.000015 a character, 0.0001 a second, 0.00002 a token. */

const speech = "/v1/audio/speech"
const endOfDay = expect.stringMatching(/^\d{4}-\d\d-\d\dT00:00:00Z$/)
const refused = { reason: "cap", period: "day", currency: "eur" }

export const spendCaps = tableInTurn(
  "spend caps",
  row("a job that could pass the cap of its key is refused, and told what it would cost at most", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    await capDay(api, key.id, "0.00003")
    const answer = await api.post(speech, { input: "abc" }, { key })
    expect(answer.status).toBe(402)
    expect(answer.error).toMatchObject({ type: "permission_error", code: "spend_cap_reached", param: null })
    expect(answer.error.details).toEqual({ ...refused, cap: "key", maximum_cost: "0.000045", resets_at: null })
    expect(answer.header("retry-after")).toBeUndefined()
    const job = await api.job(speech, { input: "ab" }, { key })
    const full = await api.post(speech, { input: "a" }, { key })
    expect(full.error.details).toEqual({ ...refused, cap: "key", maximum_cost: "0.000015", resets_at: endOfDay })
    await api.finished(job.path, key)
    expect((await api.post(speech, { input: "a" }, { key })).code).toBe("spend_cap_reached")
    await capDay(api, key.id, null)
    await api.job(speech, { input: "abc" }, { key })
  }),
  row("the cap of a project holds for all its keys, and for no sandbox job", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const [other, test] = [await api.newKey({ mode: "live", besides: key }), await api.newKey({ besides: key })]
    await capDay(api, key.projectId, "0.00003")
    await api.job(speech, { input: "a" }, { key })
    await api.job(speech, { input: "a" }, { key: other })
    for (const one of [key, other])
      expect((await api.post(speech, { input: "a" }, { key: one })).error.details).toMatchObject({ cap: "project" })
    await api.job(speech, { input: "a" }, { key: test })
  }),
  row("audio counts as long as it may be, tokens as many as were asked for", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const upload_id = await api.uploaded(wav(1), { key })
    await capDay(api, key.id, "0.09")
    const transcription = await api.post("/v1/audio/transcriptions", { upload_id }, { key })
    expect(transcription.error.details).toMatchObject({ maximum_cost: "0.0901" })
    const turn = await api.post("/v1/voice/turns", { upload_id, max_output_tokens: 10 }, { key })
    expect(turn.error.details).toMatchObject({ maximum_cost: "0.0903" })
    const image = await api.post("/v1/images/generations", { prompt: "x" }, { key })
    expect(image.status).toBe(202)
    await capDay(api, key.id, "1")
    // The refusals did not use up the upload.
    await api.job("/v1/audio/transcriptions", { upload_id }, { key })
  }),
  row("a repeat is replayed under a reached cap, and a refusal leaves its idempotency key free", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const headers = { "idempotency-key": "capped" }
    await capDay(api, key.id, "0.00001")
    expect((await api.post(speech, { input: "a" }, { key, headers })).code).toBe("spend_cap_reached")
    await capDay(api, key.id, "0.00002")
    const first = await api.post(speech, { input: "b" }, { key, headers })
    expect(first.status).toBe(202)
    expectReplay(await api.post(speech, { input: "b" }, { key, headers }), first)
    expect((await api.post(speech, { input: "c" }, { key, headers })).code).toBe("idempotency_key_reused")
  }),
)
