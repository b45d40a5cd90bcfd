import { assert, describe, it } from "@effect/vitest"
import { errorCodes } from "@kiln/core/domain"
import { type ProviderCall, ProviderFailure } from "@kiln/core/providers"
import { parseSteering, sandboxProviders } from "@kiln/provider-sandbox"
import { Effect } from "effect"
import { callWith, firstCall } from "./support/calls.ts"

const steered = sandboxProviders({ steering: true })
const unsteered = sandboxProviders({ steering: false })

/** The three providers, each with the text in the field that steers it. */
const waysIn = (set: typeof steered) => ({
  speech: (text: string, call: ProviderCall) => Effect.asVoid(set.speech({ text, voice: "alloy" }, call)),
  image: (prompt: string, call: ProviderCall) => Effect.asVoid(set.image({ prompt }, call)),
  reply: (instructions: string, call: ProviderCall) =>
    Effect.asVoid(set.reply({ text: "Hello", instructions, maxOutputTokens: 10 }, call)),
})
const each = Object.entries(waysIn(steered))

const ordinary = [
  "",
  "sandbox",
  "sandbox:",
  "sandbox:fail",
  "sandbox:fail:",
  "sandbox:fail:unknown_code",
  "sandbox:fail:prerequisite_failed",
  "sandbox:fail:not_accepted",
  "sandbox:fail:PROVIDER_REJECTED",
  "sandbox:fail:provider_rejected ",
  " sandbox:fail:provider_rejected",
  "sandbox:fail:provider_rejected\n",
  "\nsandbox:fail:provider_rejected",
  "Sandbox:fail:provider_rejected",
  "sandbox:fail: provider_rejected",
  "sandbox:fail:provider_rejected.",
  "sandbox:fail:toString",
  "please sandbox:fail:provider_rejected",
  "sandbox:fail:provider_rejected:1",
  '"sandbox:fail:provider_rejected"',
  "sandbox:delay:",
  "sandbox:delay:-1",
  "sandbox:delay:+1",
  "sandbox:delay:1e3",
  "sandbox:delay:.5",
  "sandbox:delay:5.",
  "sandbox:delay:0x10",
  "sandbox:delay:1s",
  "sandbox:delay:1,5",
  "sandbox:delay:Infinity",
  "sandbox:delay:60.01",
  "sandbox:delay:61",
  "sandbox:delay:86400",
  `sandbox:delay:${"9".repeat(400)}`,
  "sandbox:delay:NaN",
  "sandbox:delay: 1",
  "sandbox:delay:1 ",
  "sandbox:delay:1\n",
  "sandbox:delay:١",
  "sandbox:flaky:",
  "sandbox:flaky:-1",
  "sandbox:flaky:1.0",
  "sandbox:flaky:1.5",
  "sandbox:flaky:two",
  "sandbox:flaky:1 ",
  "sandbox:wait:1",
  "sandbox::1",
  "sandbox:fail:provider_rejected\nsandbox:delay:1",
]

const steerable = errorCodes.filter((code) => !ordinary.includes(`sandbox:fail:${code}`))

describe("parseSteering", () => {
  it("accepts every error code of a job with a provider", () => {
    for (const errorCode of steerable)
      assert.deepStrictEqual(parseSteering(`sandbox:fail:${errorCode}`), { _tag: "Fail", errorCode })
  })

  it("reads decimal seconds, at most 60, and whole counts", () => {
    const cases = {
      "0": 0,
      "0.5": 0.5,
      "2": 2,
      "007": 7,
      "1.250": 1.25,
      "60": 60,
      "60.0": 60,
    }
    for (const [text, seconds] of Object.entries(cases))
      assert.deepStrictEqual(parseSteering(`sandbox:delay:${text}`), { _tag: "Delay", seconds })
    assert.deepStrictEqual(parseSteering("sandbox:flaky:0"), { _tag: "Flaky", failures: 0 })
    assert.deepStrictEqual(parseSteering("sandbox:flaky:12"), { _tag: "Flaky", failures: 12 })
  })

  it.each(ordinary)("treats %j as ordinary text", (text) => {
    assert.isUndefined(parseSteering(text))
  })
})

describe.each(each)("%s", (_, request) => {
  it.effect("fails permanently with the requested code", () =>
    Effect.gen(function* () {
      for (const errorCode of steerable) {
        const failure = yield* Effect.flip(request(`sandbox:fail:${errorCode}`, callWith(2)))
        assert.instanceOf(failure, ProviderFailure)
        assert.deepInclude(failure, { errorCode, retry: false })
      }
    }),
  )

  it.effect("is flaky as often as requested, counting failures rather than attempts", () =>
    Effect.gen(function* () {
      for (const failures of [0, 1]) {
        const failure = yield* Effect.flip(request("sandbox:flaky:2", callWith(failures)))
        assert.deepInclude(failure, { errorCode: "provider_unavailable", retry: true })
      }
      yield* request("sandbox:flaky:2", callWith(2))
      yield* request("sandbox:flaky:0", firstCall)
      const retriedAfterLostWorkers = { ...callWith(0), attempt: 7 }
      yield* Effect.flip(request("sandbox:flaky:1", retriedAfterLostWorkers))
    }),
  )

  it.effect("requests the delay once without waiting itself, and then answers immediately", () =>
    Effect.gen(function* () {
      const asked = yield* Effect.flip(request("sandbox:delay:2.5", firstCall))
      assert.deepInclude(asked, { _tag: "ProviderPostponed", delayMs: 2_500 })
      yield* request("sandbox:delay:2.5", { ...firstCall, attempt: 2, deferrals: 1 })
      // Its worker was lost before the delay was written.
      yield* Effect.flip(request("sandbox:delay:2.5", { ...firstCall, attempt: 2 }))
      for (const seconds of ["0", "0.0"]) yield* request(`sandbox:delay:${seconds}`, firstCall)
    }),
  )
})

it.effect("live jobs with sandbox models are not steered", () =>
  Effect.gen(function* () {
    for (const request of Object.values(waysIn(unsteered)))
      for (const text of ["sandbox:fail:content_rejected", "sandbox:flaky:3", "sandbox:delay:5"])
        yield* request(text, firstCall)
  }),
)

it.effect("neither transcribed speech nor silence steers a reply", () =>
  Effect.gen(function* () {
    const text = "sandbox:fail:provider_rejected"
    for (const instructions of [undefined, "Be kind."])
      yield* steered.reply({ text, instructions, maxOutputTokens: 10 }, firstCall)
  }),
)
