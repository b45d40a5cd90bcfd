import { describe, expect, it } from "vitest"
import { defaultEngineSettings } from "@kiln/core"
import { configProblems, engineSettings } from "../../src/cli/KilnConfig.ts"

describe("limits of concurrency in the config file", () => {
  const problemsOf = (limits: unknown) => configProblems({ engine: { limits } })

  it("are by kind and by project, each of them optional", () => {
    for (const limits of [{}, { perProject: 0 }, { perProject: 3 }, { perKind: {} }, { perKind: { voice_turn: 1 } }])
      expect(problemsOf(limits)).toEqual([])
    const settings = engineSettings({ engine: { limits: { perKind: { voice_turn: 2 } } } }, { concurrency: 3 })
    expect(settings).toMatchObject({ concurrency: 3, limits: { perKind: { voice_turn: 2 }, perProject: 0 } })
    expect(engineSettings({}, {}).limits).toEqual(defaultEngineSettings.limits)
  })

  it.each([
    [5, "engine.limits must be an object"],
    [{ perkind: {} }, "engine.limits.perkind is not known; there is perKind, perProject"],
    [{ perKind: 5 }, "engine.limits.perKind must be an object"],
    [{ perKind: { voice_turn: 0 } }, "engine.limits.perKind.voice_turn must be a whole number, 1 or more"],
    [{ perKind: { voice_turn: 1.5 } }, "engine.limits.perKind.voice_turn must be a whole number, 1 or more"],
    [{ perProject: -1 }, "engine.limits.perProject must be a whole number, 0 or more; 0 is no limit"],
    [{ perProject: "2" }, "engine.limits.perProject must be a whole number, 0 or more; 0 is no limit"],
  ])("%j: %s", (limits, problem) => {
    expect(problemsOf(limits)).toEqual([problem])
  })

  it("name kinds that there are", () => {
    expect(problemsOf({ perKind: { speech: 1 } })).toEqual([
      expect.stringMatching(/^engine\.limits\.perKind\.speech is not known; there is .*speech_synthesis/),
    ])
  })

  it("do not hide what else is wrong, with bounds or with their names", () => {
    expect(configProblems({ engine: { limits: { perProject: 1 }, concurrency: 0, concurency: 1 } })).toEqual([
      expect.stringMatching(/^engine\.concurency is not known; there is .*limits/),
      "engine.concurrency must be 1 or more",
    ])
  })
})
