import { builtInKinds, createEngine } from "@kiln/core"
import { fakeMp3, makeFakeProviders, memoryBlobs, memoryStore, programmable, testEngine } from "@kiln/testing"
import { assertDone } from "@kiln/testing/assert"
import { expect, it } from "vitest"

const speak = { input: "Hello" }

it.each([
  ["provider_unavailable", 3],
  ["result_invalid", 3],
  ["content_rejected", 1],
  ["provider_rejected", 1],
] as const)("fakes fail with %s, after %i attempts for good", async (how, attempts) => {
  await using kiln = await testEngine()
  kiln.providers.speech.always.fail(how)
  expect(await kiln.submit("speech_synthesis", speak)).toMatchObject({ status: "failed", errorCode: how, attempts })
})

it("fakes refuse an unknown failure, and name those they know", async () => {
  await using kiln = await testEngine()
  const { speech } = kiln.providers
  expect(() => speech.fail("provider_rejcted" as "quota")).toThrow(
    new TypeError('unknown failure "provider_rejcted"; did you mean "provider_rejected"?'),
  )
  expect(() => Reflect.apply(speech.always.fail, undefined, [{ retryAfterMs: 5 }])).toThrow(
    "must be one of provider_unavailable",
  )
})

it.each(["configuration", "quota"] as const)("fakes break: %s", async (how) => {
  await using kiln = await testEngine({ mode: "manual" })
  kiln.providers.speech.fail(how)
  const job = await kiln.submit("speech_synthesis", speak, { mode: "live" })
  expect(await kiln.runNext()).toMatchObject({ status: "processing", attempts: 1 })
  await kiln.advance("29 seconds")
  expect(await kiln.runNext()).toBeUndefined()
  await kiln.drain({ throughRetries: true })
  expect((await kiln.get(job)).status).toBe("done")
})

it("fakes can return invalid answers", async () => {
  await using kiln = await testEngine()
  kiln.providers.speech.malformed().malformed({ data: "text" }).malformed({ data: new Uint8Array(), mediaType: "x" })
  expect(await kiln.submit("speech_synthesis", speak)).toMatchObject({ status: "failed", errorCode: "result_invalid" })
})

it("fakes return given values, once or always, with defaults for the rest", async () => {
  await using kiln = await testEngine()
  const upload = async () => {
    const ticket = await kiln.createUpload({ format: "mp3", declaredSeconds: 1 })
    await kiln.receiveUpload(ticket, "audio/mpeg", fakeMp3("asked"))
    return ticket.id
  }
  kiln.providers.reply.answer({ text: "Bonjour" })
  kiln.providers.transcription.always.answer({ text: "Hello" })
  const first = await kiln.submit("voice_turn", { uploadId: await upload(), maxOutputTokens: 10 })
  assertDone(first)
  expect(first.output?.text).toBe("Bonjour")
  const second = await kiln.submit("voice_turn", { uploadId: await upload(), maxOutputTokens: 10 })
  assertDone(second)
  expect(second.output?.text).toBe("fake reply")
  expect(kiln.providers.reply.calls.map(({ request }) => request.text)).toEqual(["Hello", "Hello"])
  expect(kiln.providers.transcription.calls[0]).toEqual({
    jobId: first.id,
    attempt: 1,
    failures: 0,
    deferrals: 0,
    outcome: "answered",
    request: {
      audio: { format: "mp3", bytes: fakeMp3("asked").length, seconds: 1, declaredSeconds: 1, isMeasured: false },
    },
  })
})

it("a voice turn goes to the provider that makes it in one call, if there is one", async () => {
  await using kiln = await testEngine({ providers: { voiceTurn: "fake" } })
  const ticket = await kiln.createUpload({ format: "mp3", declaredSeconds: 1 })
  await kiln.receiveUpload(ticket, "audio/mpeg", fakeMp3())
  assertDone(await kiln.submit("voice_turn", { uploadId: ticket.id, maxOutputTokens: 10 }))
  expect([kiln.providers.voiceTurn.calls.length, kiln.providers.reply.calls.length]).toEqual([1, 0])
})

it("custom providers replace a fake", async () => {
  const asked: Array<string> = []
  await using kiln = await testEngine({
    providers: {
      speech: async ({ text }) => {
        asked.push(text)
        return { data: fakeMp3(text), mediaType: "audio/mpeg" }
      },
    },
  })
  assertDone(await kiln.submit("speech_synthesis", speak))
  expect([asked, kiln.providers.speech.calls]).toEqual([["Hello"], []])
})

it("fakes serve an engine that is assembled by hand", async () => {
  const fakes = makeFakeProviders()
  const { image } = programmable(fakes)
  image.fail("content_rejected")
  await using engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: fakes.providers },
    log: false,
  })
  expect(await engine.submitAndWait("image_generation", { prompt: "a fox" })).toMatchObject({
    errorCode: "content_rejected",
  })
  expect(image.calls).toMatchObject([{ request: { prompt: "a fox" }, attempt: 1, outcome: "failed" }])
})
