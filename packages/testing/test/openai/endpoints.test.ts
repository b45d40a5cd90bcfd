import { createHash } from "node:crypto"
import { answer, replyTo, transcriptOf } from "@kiln/testing/openai"
import { describe, expect, it } from "vitest"
import { ask, bytesOf, draw, pngSize, post, requests, smallWav, transcribe, withStandIn } from "./support.ts"

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")

describe("transcription", () => {
  it("transcribes every file differently, and the same file identically", () =>
    withStandIn(async (standIn) => {
      const texts = await Promise.all(
        [smallWav(1), smallWav(1), smallWav(1, 0x81)].map(async (file) => (await transcribe(standIn, file)).json()),
      )
      expect(texts[0]).toEqual({
        text: transcriptOf({ sha256: sha256(smallWav(1)) }),
        usage: { type: "duration", seconds: 1 },
      })
      expect(texts[1]).toEqual(texts[0])
      expect(texts[2].text).not.toBe(texts[0].text)
    }))

  it("measures a WAV by its data, not by its header", () =>
    withStandIn(async (standIn) => {
      const claims = Buffer.from(smallWav(3))
      claims.writeUInt32LE(0xffff_ffff, 40)
      const verbose = await (
        await transcribe(standIn, Uint8Array.from(claims), { response_format: "verbose_json" })
      ).json()
      expect(verbose).toMatchObject({ task: "transcribe", language: "english", duration: 3 })
      expect(verbose.segments).toHaveLength(1)
      expect(verbose.segments[0]).toMatchObject({ id: 0, start: 0, end: 3, text: verbose.text })
    }))

  it("reports no length for a file that it cannot measure", () =>
    withStandIn(async (standIn) => {
      const fields = { response_format: "verbose_json" }
      const verbose = await (await transcribe(standIn, Uint8Array.of(1, 2, 3), fields, "a.mp3")).json()
      expect(verbose).not.toHaveProperty("duration")
      standIn.script("transcription", answer({ text: "hi", seconds: 7.5, language: "german" }))
      const told = await (await transcribe(standIn, Uint8Array.of(1, 2, 3), fields, "a.mp3")).json()
      expect(told).toMatchObject({ text: "hi", duration: 7.5, language: "german", usage: { seconds: 8 } })
    }))

  it("returns text as text, and refuses verbose_json like the real model", () =>
    withStandIn(async (standIn) => {
      standIn.usually("transcription", answer({ text: "plain" }))
      const text = await transcribe(standIn, smallWav(1), { response_format: "text" })
      expect(text.headers.get("content-type")).toBe("text/plain; charset=utf-8")
      expect(await text.text()).toBe("plain\n")
      const newer = await transcribe(standIn, smallWav(1), {
        model: "gpt-4o-transcribe",
        response_format: "verbose_json",
      })
      expect(newer.status).toBe(400)
      expect((await newer.json()).error).toMatchObject({ param: "response_format", code: "unsupported_value" })
      const tokens = await transcribe(standIn, smallWav(1), { model: "gpt-4o-transcribe" })
      expect(await tokens.json()).toMatchObject({ text: "plain", usage: { type: "tokens", output_tokens: 1 } })
    }))

  it.each([
    ["an empty file", new Uint8Array(), "a.wav", { code: "audio_too_short" }],
    ["an unknown ending", smallWav(1), "a.exe", { param: "file" }],
  ])("refuses %s", (_, file, filename, error) =>
    withStandIn(async (standIn) => {
      const refused = await transcribe(standIn, file, {}, filename)
      expect(refused.status).toBe(400)
      expect((await refused.json()).error).toMatchObject(error)
    }),
  )

  it("records the file and the fields, but never the bytes", () =>
    withStandIn(async (standIn) => {
      await transcribe(standIn, smallWav(1), { language: "en" }, 'my "tape".wav')
      const [call] = standIn.callsOf("transcription")
      expect(call).toMatchObject({
        number: 1,
        endpoint: "transcription",
        path: "/v1/audio/transcriptions",
        model: "whisper-1",
        behavior: "Answer",
        headers: { authorization: true },
        request: {
          responseFormat: "json",
          file: {
            filename: 'my "tape".wav',
            contentType: "audio/wav",
            bytes: 8044,
            sha256: sha256(smallWav(1)),
            seconds: 1,
          },
        },
      })
      expect(call?.request?.fields["language"]).toEqual(["en"])
      expect(JSON.stringify(standIn.calls())).not.toContain(standIn.apiKey)
    }))
})

describe("text", () => {
  it("replies in chat, counts words as tokens, and cuts at the limit", () =>
    withStandIn(async (standIn) => {
      const whole = await (await ask(standIn, "one two three")).json()
      expect(whole.choices[0]).toMatchObject({
        finish_reason: "stop",
        message: { role: "assistant", content: "You said: one two three" },
      })
      expect(whole.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 })
      for (const limit of [{ max_tokens: 3 }, { max_completion_tokens: 3 }]) {
        const cut = await (await ask(standIn, "one two three", limit)).json()
        expect(cut.choices[0]).toMatchObject({ finish_reason: "length", message: { content: "You said: one" } })
        expect(cut.usage.completion_tokens).toBe(3)
      }
      const exact = await (await ask(standIn, "one two three", { max_tokens: 5 })).json()
      expect(exact.choices[0].finish_reason).toBe("stop")
    }))

  it("replies in responses, with instructions, parts, and the limit's lower bound", () =>
    withStandIn(async (standIn) => {
      const words = Array.from({ length: 30 }, (_, index) => `w${index}`).join(" ")
      const asked = {
        model: "gpt-4o-mini",
        instructions: "be brief",
        input: [
          { role: "developer", content: "in French" },
          { role: "user", content: [{ type: "input_text", text: words }] },
        ],
        max_output_tokens: 16,
      }
      const cut = await (await post(standIn, "/responses", asked)).json()
      expect(cut).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } })
      expect(cut.output[0].content[0].text.split(" ")).toHaveLength(16)
      expect(cut.usage).toMatchObject({ input_tokens: 34, output_tokens: 16, total_tokens: 50 })
      const [call] = standIn.callsOf("responses")
      expect(call?.request?.messages.map(({ role }) => role)).toEqual(["system", "developer", "user"])
      expect(replyTo(call!.request!.messages)).toBe(`You said: ${words}`)
      const tooFew = await post(standIn, "/responses", { ...asked, max_output_tokens: 15 })
      expect(tooFew.status).toBe(400)
      expect((await tooFew.json()).error.code).toBe("integer_below_min_value")
    }))

  it("returns configured words, tokens, finish reasons and refusals", () =>
    withStandIn(async (standIn) => {
      standIn.script("chat", answer({ text: "", outputTokens: 77, finishReason: "content_filter" }))
      const filtered = await (await ask(standIn, "x")).json()
      expect(filtered.choices[0]).toMatchObject({ finish_reason: "content_filter", message: { content: "" } })
      expect(filtered.usage.completion_tokens).toBe(77)
      standIn.script("chat", answer({ refusal: "no" }))
      expect((await (await ask(standIn, "x")).json()).choices[0].message).toMatchObject({
        content: null,
        refusal: "no",
      })
      standIn.script("responses", answer({ refusal: "no" }))
      const refused = await (await requests.responses(standIn)).json()
      expect(refused.output[0].content).toEqual([{ type: "refusal", refusal: "no" }])
    }))
})

describe("image", () => {
  it("draws a PNG of 1024 by 1024, different for every prompt", () =>
    withStandIn(async (standIn) => {
      const drawn = async (prompt: string) =>
        Buffer.from((await (await draw(standIn, prompt)).json()).data[0].b64_json, "base64")
      const [one, again, other] = await Promise.all([drawn("a kiln"), drawn("a kiln"), drawn("a kiln, again")])
      expect(pngSize(one)).toEqual({ width: 1024, height: 1024 })
      expect(one.equals(again)).toBe(true)
      expect(one.equals(other)).toBe(false)
      expect(one.length).toBeLessThan(20_000)
    }))

  it("returns URLs if the model has them, which need no key", () =>
    withStandIn(async (standIn) => {
      const { data } = await (await draw(standIn, "two kilns", { model: "dall-e-3", size: "1536x1024", n: 2 })).json()
      expect(data).toHaveLength(2)
      expect(data[0].url).not.toBe(data[1].url)
      const file = await fetch(data[1].url)
      expect(file.headers.get("content-type")).toBe("image/png")
      expect(pngSize(await bytesOf(file))).toEqual({ width: 1536, height: 1024 })
      expect(standIn.callsOf("imageFile")).toHaveLength(1)
      standIn.script("image", answer({ url: "http://127.0.0.1:1/elsewhere.png" }))
      expect((await (await draw(standIn, "x")).json()).data).toEqual([{ url: "http://127.0.0.1:1/elsewhere.png" }])
    }))

  it("rejects the parameters that newer models reject", () =>
    withStandIn(async (standIn) => {
      for (const [more, param] of [
        [{ response_format: "url" }, "response_format"],
        [{ size: "1x1" }, "size"],
        [{ n: 11 }, "n"],
        [{ prompt: "" }, "prompt"],
      ] as const) {
        const refused = await draw(standIn, "x", more)
        expect(refused.status, param).toBe(400)
        expect((await refused.json()).error.param).toBe(param)
      }
    }))
})
