import { setTimeout as pause } from "node:timers/promises"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { jobKind } from "@kiln/core"
import { expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const request = z.object({})
const numbered = z.object({ n: z.number() })
const waits = 1_000

setFlagsFromString("--expose-gc")
const collectGarbage = runInNewContext("gc") as () => void

it("lets go of the memory of handlers that never go on", async () => {
  const alive = new Set<WeakRef<object>>()
  const begun = new Set<number>()
  const hanging = jobKind({
    name: "hanging",
    request: numbered,
    run: async (attempt) => {
      if (begun.has(attempt.request.n)) return { output: {} }
      begun.add(attempt.request.n)
      const buffer = new Uint8Array(1_024)
      alive.add(new WeakRef(attempt)).add(new WeakRef(buffer))
      try {
        await attempt.children("quick", "quick" as never, [{}] as never)
      } finally {
        // Keeps the buffer as long as the handler.
        buffer.fill(1)
      }
      throw new Error("went on")
    },
  })
  const quick = jobKind({ name: "quick", request, run: async () => ({ output: {} }) })
  await using engine = await openWith([hanging, quick], { settings: { concurrency: 32, queueCap: 0 } })
  await engine.submitMany(
    "hanging",
    Array.from({ length: waits }, (_, n) => ({ request: { n } })),
  )
  const unfinished = async () => {
    const counts = await engine.operator.count()
    return counts.filter(({ status }) => status !== "done").reduce((sum, { count }) => sum + count, 0)
  }
  await expect.poll(unfinished, { timeout: 120_000, interval: 250 }).toBe(0)
  expect(alive.size).toBe(2 * waits)
  const left = async () => {
    collectGarbage()
    await pause(10)
    return [...alive].filter((ref) => ref.deref() !== undefined).length
  }
  // The last attempts of each slot may still be held by a stack frame or a cache.
  await expect.poll(left, { timeout: 60_000, interval: 50 }).toBeLessThanOrEqual(64)
})
