import { answer, standInModels } from "@kiln/testing/openai"
import { describe, expect, it } from "vitest"
import { ask, post, requests, speak, withStandIn } from "./support.ts"

describe("what is wrong with a request", () => {
  it("lists its models", () =>
    withStandIn(async (standIn) => {
      const { data } = await (await requests.models(standIn)).json()
      expect(data.map(({ id }: { id: string }) => id)).toEqual(standInModels)
    }))

  it("no key, and a wrong one, of which the message shows a part", () =>
    withStandIn(async (standIn) => {
      const none = await fetch(`${standIn.url}/models`)
      expect(none.status).toBe(401)
      expect((await none.json()).error).toMatchObject({ type: "invalid_request_error", code: null })
      const wrong = await post(
        standIn,
        "/audio/speech",
        {},
        { headers: { authorization: "Bearer sk-wrong-abcdefghijkl" } },
      )
      expect(wrong.status).toBe(401)
      const { error } = await wrong.json()
      expect(error).toMatchObject({ type: "invalid_request_error", param: null, code: "invalid_api_key" })
      expect(error.message).toContain("sk-wrong*********ijkl")
      expect(error.message).not.toContain("abcdefgh")
      expect(standIn.calls().map(({ outcome, headers }) => [outcome, headers.authorization])).toEqual([
        ["failed", false],
        ["failed", true],
      ])
    }))

  it("requires no key if none is set, and accepts any model if configured", () =>
    withStandIn(
      async (standIn) => {
        const response = await fetch(`${standIn.url}/audio/speech`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ model: "my-own", voice: "me", input: "hi" }),
        })
        expect(response.status).toBe(200)
      },
      { apiKeys: [], models: "any" },
    ))

  it("an unknown model is 404, and does not consume the script", () =>
    withStandIn(async (standIn) => {
      standIn.script("chat", answer({ text: "scripted" }))
      const unknown = await ask(standIn, "x", { model: "gpt-none" })
      expect(unknown.status).toBe(404)
      expect((await unknown.json()).error).toEqual({
        message: "The model `gpt-none` does not exist or you do not have access to it.",
        type: "invalid_request_error",
        param: null,
        code: "model_not_found",
      })
      expect(standIn.calls()[0]).toMatchObject({ model: "gpt-none", outcome: "failed", status: 404 })
      expect((await (await ask(standIn, "x")).json()).choices[0].message.content).toBe("scripted")
    }))

  it.each([
    ["not JSON", "/chat/completions", "{", 400, {}],
    ["not an object", "/chat/completions", "[]", 400, {}],
    ["no model", "/audio/speech", {}, 400, { param: "model", code: "missing_required_parameter" }],
    ["no voice", "/audio/speech", { model: "tts-1", input: "x" }, 400, { param: "voice" }],
    ["no messages", "/chat/completions", { model: "gpt-4o-mini" }, 400, { param: "messages" }],
    ["no input", "/responses", { model: "gpt-4o-mini" }, 400, { param: "input" }],
    ["a model that is not a string", "/responses", { model: 1 }, 400, { param: "model", code: "invalid_type" }],
    ["an unknown path", "/nowhere", {}, 404, { code: "unknown_url" }],
    ["a wrong method", "/models", {}, 405, { code: "method_not_supported" }],
  ])("%s", (_, path, body, status, error) =>
    withStandIn(async (standIn) => {
      const refused = await post(standIn, path, body)
      expect(refused.status).toBe(status)
      expect((await refused.json()).error).toMatchObject({ type: "invalid_request_error", ...error })
      expect(standIn.calls()).toMatchObject([{ outcome: "failed", status }])
    }),
  )

  it("another content type than JSON", () =>
    withStandIn(async (standIn) => {
      const refused = await post(standIn, "/audio/speech", {}, { headers: { "content-type": "text/plain" } })
      expect(refused.status).toBe(415)
    }))

  it("too large: 413, even for an endless body", () =>
    withStandIn(
      async (standIn) => {
        const edge = JSON.stringify({ model: "tts-1", voice: "v", input: "x", pad: "" })
        const padded = (bytes: number) => edge.replace('"pad":""', `"pad":"${"x".repeat(bytes - edge.length)}"`)
        expect((await post(standIn, "/audio/speech", padded(1000))).status).toBe(200)
        expect((await post(standIn, "/audio/speech", padded(1001))).status).toBe(413)
        expect((await post(standIn, "/audio/speech", padded(4000))).status).toBe(413)
        const forEver = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1000)) })
        const ended = fetch(`${standIn.url}/audio/speech`, {
          method: "POST",
          headers: { authorization: `Bearer ${standIn.apiKey}` },
          body: forEver,
          duplex: "half",
        } as RequestInit).then(
          ({ status }) => status,
          () => "cut",
        )
        expect([413, "cut"]).toContain(await ended)
      },
      { maxRequestBytes: 1000 },
    ))

  it("speech beyond the limit, and at the limit", () =>
    withStandIn(async (standIn) => {
      expect((await speak(standIn, "🔥".repeat(4096))).status).toBe(200)
      const refused = await speak(standIn, "x".repeat(4097))
      expect((await refused.json()).error).toMatchObject({ param: "input", code: "string_above_max_length" })
      expect((await speak(standIn, "x", { response_format: "midi" })).status).toBe(400)
    }))
})
