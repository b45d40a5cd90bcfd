import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { defaultEngineSettings } from "@kiln/core/effect"
import { configProblems, engineSettings } from "../src/KilnConfig.ts"

describe("concurrency limits in the config file", () => {
  const problemsOf = (limits: unknown) => configProblems({ engine: { limits } })

  it("are optional, by kind and by project", () => {
    for (const limits of [
      {},
      { perProject: 0 },
      { perProject: 3 },
      { perProject: "share" },
      { perKind: {} },
      { perKind: { voice_turn: 1 } },
    ])
      expect(problemsOf(limits)).toEqual([])
    const settings = engineSettings({ engine: { limits: { perKind: { voice_turn: 2 } } } }, { concurrency: 3 })
    expect(settings).toMatchObject({ concurrency: 3, limits: { perKind: { voice_turn: 2 }, perProject: "share" } })
    const named = engineSettings(
      { engine: { limits: { perKind: { voice_turn: 2 }, perProject: 5 } } },
      { limits: { perProject: 4 } },
    )
    expect(named.limits).toEqual({ perKind: { voice_turn: 2 }, perProject: 4 })
    expect(engineSettings({}, {}).limits).toEqual(defaultEngineSettings.limits)
  })

  it.each([
    [5, "engine.limits must be an object"],
    [{ perkind: {} }, "engine.limits.perkind is unknown; known: perKind, perProject"],
    [{ perKind: 5 }, "engine.limits.perKind must be an object"],
    [{ perKind: { voice_turn: 0 } }, "engine.limits.perKind.voice_turn must be a positive integer"],
    [{ perKind: { voice_turn: 1.5 } }, "engine.limits.perKind.voice_turn must be a positive integer"],
    [{ perProject: -1 }, 'engine.limits.perProject must be "share" or a non-negative integer; 0 means no limit'],
    [{ perProject: "2" }, 'engine.limits.perProject must be "share" or a non-negative integer; 0 means no limit'],
  ])("%j: %s", (limits, problem) => {
    expect(problemsOf(limits)).toEqual([problem])
  })

  it("must name existing kinds", () => {
    expect(problemsOf({ perKind: { speech: 1 } })).toEqual([
      expect.stringMatching(/^engine\.limits\.perKind\.speech is unknown; known: .*speech_synthesis/),
    ])
  })

  it("do not hide other problems", () => {
    expect(configProblems({ engine: { limits: { perProject: 1 }, concurrency: 0, concurency: 1 } })).toEqual([
      expect.stringMatching(/^engine\.concurency is unknown; known: .*limits/),
      "engine.concurrency must be at least 1",
    ])
  })
})

describe("providers in the config file", () => {
  it("are functions that return promises or Effects", () => {
    const speak = () => Effect.die("never called")
    const reply = async () => ({ text: "", outputTokens: 0, truncated: false })
    expect(configProblems({ providers: { speech: speak, reply, image: undefined } })).toEqual([])
  })

  it.each([
    [{ speech: { say: () => {} } }, "providers.speech must be a function (request, call)"],
    [{ reply: "openai" }, "providers.reply must be a function (request, call)"],
    [5, "providers must be an object"],
  ])("%j: %s", (providers, problem) => expect(configProblems({ providers })).toEqual([problem]))
})

describe("limits of providers in the config file", () => {
  const rated = { speech: { rate: { limit: 60, perMs: 60_000, burst: 10 } } }
  const problemsOf = (engine: unknown) => configProblems({ engine })

  it("are optional for each provider; omitted ones keep their defaults", () => {
    for (const providers of [
      {},
      { image: {} },
      { image: { concurrency: 0 } },
      { reply: { callLimitMs: 1_000 } },
      rated,
    ])
      expect(problemsOf({ providers })).toEqual([])
    const { circuit, providers } = engineSettings(
      { engine: { providers: { image: { concurrency: 2 } }, circuit: { maxFailures: 9 } } },
      {},
    )
    const usual = defaultEngineSettings
    expect(providers).toEqual({ ...usual.providers, image: { ...usual.providers.image, concurrency: 2 } })
    expect(circuit).toEqual({ ...usual.circuit, maxFailures: 9 })
  })

  const places = "must be a non-negative integer; 0 means no limit"
  it.each([
    [{ providers: { image: { concurrency: 0.5 } } }, `engine.providers.image.concurrency ${places}`],
    [{ providers: { image: { concurrency: 1e300 } } }, `engine.providers.image.concurrency ${places}`],
    [{ providers: { image: { concurrency: -1 } } }, "engine.providers.image.concurrency must be a non-negative number"],
    [
      { providers: { image: { concurrency: Number.NaN } } },
      "engine.providers.image.concurrency must be a non-negative number",
    ],
    [{ providers: { reply: { callLimitMs: 120 } } }, "engine.providers.reply.callLimitMs must be at least 1000"],
    [{ providers: { reply: { callLimitMs: 0 } } }, "engine.providers.reply.callLimitMs must be at least 1000"],
    [{ providers: { reply: { rate: 60 } } }, "engine.providers.reply.rate must be an object { limit, perMs, burst }"],
    [
      { providers: { reply: { rate: { limit: 0, perMs: 1_000 } } } },
      "engine.providers.reply.rate needs a limit that is an integer from 1 to 1000000",
    ],
    [{ providers: { reply: 5 } }, "engine.providers.reply must be an object"],
    [{ providers: 5 }, "engine.providers must be an object"],
    [
      { providers: { speach: { concurrency: 1 } } },
      "engine.providers.speach is unknown; known: transcription, reply, speech, image, voiceTurn",
    ],
    [{ circuit: { maxFailures: -1 } }, "engine.circuit.maxFailures must be a non-negative number"],
    [{ circuit: { brokenPauseMs: Infinity } }, "engine.circuit.brokenPauseMs must be a non-negative number"],
  ])("%j: %s", (engine, problem) => {
    expect(problemsOf(engine)).toEqual([problem])
  })

  it("must name existing providers and limits", () => {
    expect(problemsOf({ providers: { images: {}, reply: { concurency: 1 } }, circuit: { pauseMs: 1 } })).toEqual([
      expect.stringMatching(/^engine\.providers\.images is unknown; known: .*image/),
      expect.stringMatching(/^engine\.providers\.reply\.concurency is unknown/),
      expect.stringMatching(/^engine\.circuit\.pauseMs is unknown; known: maxFailures/),
    ])
  })
})
