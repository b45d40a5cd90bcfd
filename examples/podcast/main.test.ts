import { testEngine } from "@kiln/testing"
import { assertDone, assertFailed } from "@kiln/testing/assert"
import { describe, expect, it } from "vitest"
import { episodeKind, partKind } from "./episode.ts"

const open = async (count: number) => {
  const refused = new Set<string>()
  const calls = { write: 0, speak: [] as Array<string> }
  const tools = {
    write: async (topic: string) => {
      calls.write += 1
      return Array.from({ length: count }, (_, n) => `${topic} ${n}`)
    },
    speak: async (text: string) => {
      calls.speak.push(text)
      return refused.has(text) ? undefined : new TextEncoder().encode(text)
    },
  }
  const part = partKind(tools)
  const kinds = [episodeKind(tools, part), part] as const
  return { calls, kiln: await testEngine({ kinds, mode: "manual" }), refused }
}

describe("an episode", () => {
  it("speaks only the part that failed when it is retried", async () => {
    const { calls, kiln, refused } = await open(20)
    await using _ = kiln
    refused.add("clay 7")
    const job = await kiln.submit("podcast_episode", { topic: "clay" })
    await kiln.drain()
    assertFailed(await kiln.get(job), "part_failed")
    expect([calls.write, calls.speak.length]).toEqual([1, 20])
    refused.clear()
    const again = await kiln.operator.retry(job)
    await kiln.drain()
    const done = await kiln.get(again)
    assertDone(done)
    expect([calls.write, calls.speak.length, calls.speak.at(-1)]).toEqual([1, 21, "clay 7"])
    const texts = await Promise.all((done.output?.parts ?? []).map(async (id) => kiln.readFile(id)))
    expect(texts.map((bytes) => new TextDecoder().decode(bytes))).toEqual(
      Array.from({ length: 20 }, (__, n) => `clay ${n}`),
    )
  })

  it("shows how many parts are spoken, and is canceled with those that are not", async () => {
    const { calls, kiln } = await open(5)
    await using _ = kiln
    const job = await kiln.submit("podcast_episode", { topic: "fire" })
    for (let n = 0; n < 3; n++) await kiln.runNext()
    expect(await kiln.get(job)).toMatchObject({ progress: { value: 0.4, message: "2 of 5" } })
    await kiln.operator.cancel(job)
    await kiln.drain()
    assertFailed(await kiln.get(job), "canceled_by_operator")
    expect(calls.speak).toHaveLength(2)
    // The retry speaks the other three.
    const again = await kiln.operator.retry(job)
    await kiln.drain()
    assertDone(await kiln.get(again))
    expect([calls.write, calls.speak.length]).toEqual([1, 5])
  })
})
