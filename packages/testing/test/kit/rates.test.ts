import { jobKind, providerPort } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { expect, it } from "vitest"
import { z } from "zod"

const rate = { limit: 10, perMs: 1_000 } as const
const notify = jobKind({ name: "notify", request: z.object({}), limits: { rate }, run: async () => ({ output: {} }) })
const embedding = providerPort({ name: "embedding", check: String, example: "0.5", rate })
const embed = jobKind({
  name: "embed",
  request: z.object({}),
  providers: [embedding],
  run: async ({ ask }) => {
    await ask.embedding({})
    return { output: {} }
  },
})
const kinds = [notify, embed]
const requests = (count: number) => Array.from({ length: count }, () => ({ request: {} }))

for (const name of ["notify", "embed"] as const) {
  it(`inline: time advances as the rate of ${name} says`, async () => {
    await using kiln = await testEngine({ kinds })
    const startedAt = kiln.now().getTime()
    for (let n = 0; n < 42; n++) expect((await kiln.submit(name, {})).status).toBe("done")
    const tookMs = kiln.now().getTime() - startedAt
    expect(tookMs).toBeGreaterThanOrEqual(4_000)
    expect(tookMs).toBeLessThanOrEqual(4_200)
  })

  it(`manual: no job of ${name} runs before the rate allows it, and it does then`, async () => {
    await using kiln = await testEngine({ kinds, mode: "manual" })
    await kiln.submitMany(name, requests(100))
    expect(await kiln.drain()).toBe(2)
    expect(await kiln.runNext()).toBe(undefined)
    let ran = 0
    for (let n = 0; n < 50; n++) {
      await kiln.advance(100)
      ran += await kiln.drain()
    }
    expect(ran).toBe(50)
    const before = kiln.now().getTime()
    await kiln.drain({ throughRetries: true })
    expect((kiln.now().getTime() - before) / 100).toBeCloseTo(48, -1)
  })
}
