import { expect } from "vitest"
import type { Api } from "../support/Api.ts"
import { type Key, wav } from "@kiln/service-lab"
import { audioPrice, everythingOn, pending, setPrice, whilePaused } from "../support/board.ts"
import { row, tableInTurn } from "../support/tables.ts"

/** What live jobs cost, to the last decimal. */

interface LineItem {
  readonly meter: string
  readonly quantity: number
  readonly unit_amount: string
  readonly amount: string
}

const plain = (decimal: string) => (decimal.includes(".") ? decimal.replace(/\.?0+$/, "") : decimal)

/** What a done live job must be charged: items as [meter, quantity, unit amount, amount], in any order. */
const expectCharged = (
  billing: { status: string; currency: string; amount: string; line_items: ReadonlyArray<LineItem> },
  items: ReadonlyArray<readonly [string, number, string, string]>,
  total: string,
) => {
  expect(Object.keys(billing).toSorted()).toEqual(["amount", "currency", "line_items", "status"])
  expect({ ...billing, line_items: [], amount: plain(billing.amount) }).toEqual({
    status: "charged",
    currency: "eur",
    amount: total,
    line_items: [],
  })
  for (const item of billing.line_items)
    expect(Object.keys(item).toSorted()).toEqual(["amount", "meter", "quantity", "unit_amount"])
  const found = billing.line_items.map((item) => [
    item.meter,
    item.quantity,
    plain(item.unit_amount),
    plain(item.amount),
  ])
  expect(found).toHaveLength(items.length)
  expect(found).toEqual(expect.arrayContaining([...items]))
}

const billingOf = async (api: Api, key: Key, path: string, json: unknown) =>
  (await api.finished((await api.job(path, json, { key })).path, key)).billing

export const charges = tableInTurn(
  "charges",
  row("speech is charged by the code point, exactly", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    expectCharged(
      await billingOf(api, key, "/v1/audio/speech", { input: "héllo 😀" }),
      [["input_characters", 7, "0.000015", "0.000105"]],
      "0.000105",
    )
    await setPrice(api, "svc-audio", { ...audioPrice, input_characters: "0.1" })
    expectCharged(
      await billingOf(api, key, "/v1/audio/speech", { input: "abc" }),
      [["input_characters", 3, "0.1", "0.3"]],
      "0.3",
    )
    await setPrice(api, "svc-audio", { ...audioPrice, input_characters: "123456789.000000000123456789" })
    expectCharged(
      await billingOf(api, key, "/v1/audio/speech", { input: "a".repeat(4096) }),
      [["input_characters", 4096, "123456789.000000000123456789", "505679007744.000000505679007744"]],
      "505679007744.000000505679007744",
    )
  }),
  row("audio is charged by the measured second, rounded up", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    for (const [real, seconds, amount] of [
      [7.01, 8, "0.0008"],
      [7, 7, "0.0007"],
      [0.1, 1, "0.0001"],
    ] as const) {
      const upload_id = await api.uploaded(wav(real), { key, declared: 300 })
      expectCharged(
        await billingOf(api, key, "/v1/audio/transcriptions", { upload_id }),
        [["input_audio_seconds", seconds, "0.0001", amount]],
        amount,
      )
    }
  }),
  row("a voice turn is charged for its input audio and its output tokens", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const upload_id = await api.uploaded(wav(3), { key })
    const billing = await billingOf(api, key, "/v1/voice/turns", { upload_id, max_output_tokens: 4 })
    const tokens = billing.line_items.find(({ meter }: LineItem) => meter === "output_tokens")?.quantity
    expect(tokens).toBeGreaterThan(0)
    expect(tokens).toBeLessThanOrEqual(4)
    const [reply, total] = [2 * tokens, 30 + 2 * tokens].map((units) => plain((units / 100_000).toFixed(5)))
    expectCharged(
      billing,
      [
        ["input_audio_seconds", 3, "0.0001", "0.0003"],
        ["output_tokens", tokens, "0.00002", reply!],
      ],
      total!,
    )
  }),
  row("an image's poll contains no billing", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const job = await api.job("/v1/images/generations", { prompt: "x" }, { key })
    expect(Object.keys(await api.finished(job.path, key)).toSorted()).toEqual(["id", "output", "status"])
  }),
  row("a live job that fails costs nothing", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const job = await api.job("/v1/audio/transcriptions", { upload_id: await api.uploaded(wav(902), { key }) }, { key })
    const poll = await api.finished(job.path, key)
    expect(poll).toMatchObject({
      status: "failed",
      error_code: "audio_too_long",
      billing: { status: "not_charged", currency: "eur", amount: "0", line_items: [] },
    })
  }),
  row("nothing steers a live job, and its data can be deleted; the bill stays", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const job = await api.job("/v1/audio/speech", { input: "sandbox:fail:content_rejected" }, { key })
    const { billing, status } = await api.finished(job.path, key)
    expect(status).toBe("done")
    expect((await api.delete(`${job.path}/data`, { key })).status).toBe(204)
    expect((await api.get(job.path, { key })).json).toEqual({
      id: job.id,
      status: "done",
      billing,
      warning_code: "data_deleted",
      error_code: null,
    })
  }),
  row("the price is the one of its creation; until it is done it is pending", async (api) => {
    await everythingOn(api)
    const key = await api.newKey({ mode: "live" })
    const job = await whilePaused(api, ["speech_synthesis"], async () => {
      const queued = await api.job("/v1/audio/speech", { input: "abcd" }, { key })
      await setPrice(api, "svc-audio", { ...audioPrice, input_characters: "5" })
      expect((await api.get(queued.path, { key })).json).toMatchObject({ status: "queued", billing: pending })
      return queued
    })
    expectCharged(
      (await api.finished(job.path, key)).billing,
      [["input_characters", 4, "0.000015", "0.00006"]],
      "0.00006",
    )
    expectCharged(
      await billingOf(api, key, "/v1/audio/speech", { input: "abcd" }),
      [["input_characters", 4, "5", "20"]],
      "20",
    )
  }),
)
