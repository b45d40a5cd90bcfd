import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed } from "@kiln/testing/assert"
import { describe, expect, it } from "vitest"
import { type Scene, sceneKind, videoKind } from "./captions.ts"

const setup = async (transcribe: (scene: Scene) => Promise<string | undefined>) => {
  const counts = { findScenes: 0 }
  const tools = {
    findScenes: async () => {
      counts.findScenes += 1
      return [0, 5, 10].map((from) => ({ from, to: from + 5 }))
    },
    transcribe: (_: string, scene: Scene) => transcribe(scene),
  }
  const scene = sceneKind(tools)
  return { counts, kiln: await testEngine({ kinds: [videoKind(tools, scene), scene] }) }
}

describe("the captions of a video", () => {
  it("are those of its scenes, in order, and silent scenes have none", async () => {
    const { counts, kiln } = await setup(async ({ from }) => (from === 5 ? undefined : `at ${from}`))
    await using _ = kiln
    const job = await kiln.submit("caption_video", { video: "kiln.mp4" })
    assertDone(job)
    expect(job.output).toMatchObject({ scenes: 3, silent: 1 })
    expect(new TextDecoder().decode(await kiln.readFile(job.output!.captions))).toBe(
      "WEBVTT\n\n00:00:00.000 --> 00:00:05.000\nat 0\n\n00:00:10.000 --> 00:00:15.000\nat 10",
    )
    expect(counts.findScenes).toBe(1)
  })

  it("repeat only the scene that failed", async () => {
    const calls: Array<number> = []
    const { kiln } = await setup(async ({ from }) => {
      calls.push(from)
      if (from === 5 && calls.length < 4) throw new Error("no connection")
      return `at ${from}`
    })
    await using _ = kiln
    assertDone(await kiln.submit("caption_video", { video: "kiln.mp4" }))
    expect(calls.toSorted((a, b) => a - b)).toEqual([0, ...calls.filter((from) => from === 5), 10])
    expect(calls.filter((from) => from === 5).length).toBeGreaterThan(1)
  })

  it("fail with the code of a scene that fails for good", async () => {
    const { kiln } = await setup(async () => {
      throw new Error("no connection")
    })
    await using _ = kiln
    assertFailed(await kiln.submit("caption_video", { video: "kiln.mp4" }), "internal_error")
  })
})
