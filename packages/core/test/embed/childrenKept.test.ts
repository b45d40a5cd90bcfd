import { jobKind } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const runs = { part: 0, whole: 0 }
const part = jobKind({
  name: "part",
  request: z.object({ n: z.number() }),
  output: z.object({ n: z.number() }),
  limits: { dataRetentionMs: 1, jobRetentionMs: 1 },
  run: async ({ request }) => {
    runs.part += 1
    return { output: { n: request.n } }
  },
})
const whole = jobKind({
  name: "whole",
  request: z.object({ failures: z.number() }),
  output: z.object({ parts: z.array(z.number().nullable()) }),
  limits: { maxFailures: 10 },
  run: async ({ children, failure, request }) => {
    const parts = await children("parts", part, [{ n: 1 }, { n: 2 }, { n: 3 }])
    runs.whole += 1
    if (runs.whole <= request.failures) throw failure("internal_error", { retry: true })
    return { output: { parts: parts.map((child) => (child.status === "done" ? (child.output?.n ?? null) : null)) } }
  },
})

const begin = async () => {
  Object.assign(runs, { part: 0, whole: 0 })
  return testEngine({ kinds: [whole, part] })
}

describe("children whose retention has passed", () => {
  it("stay, with their data, until their parent has finished: a repeated step runs none of them again", async () => {
    await using kiln = await begin()
    const job = await kiln.submit("whole", { failures: 3 })
    await kiln.advance(3_600_000)
    expect(await kiln.get(job)).toMatchObject({ status: "done", output: { parts: [1, 2, 3] } })
    expect(runs).toEqual({ part: 3, whole: 4 })
    await kiln.advance(60_000)
    expect((await kiln.operator.list()).jobs.map(({ kind }) => kind)).toEqual(["whole"])
  })
})

describe("a spend cap that its children reach", () => {
  const paid = jobKind({
    name: "paid",
    request: z.object({}),
    price: "paid",
    meters: ["units"],
    maxUsage: () => ({ units: 1 }),
    run: async () => ({ output: {}, usage: { units: 1 } }),
  })
  let looks = 0
  const buyer = jobKind({
    name: "buyer",
    request: z.object({}),
    run: async ({ children }) => {
      looks += 1
      const bought = await children("all", paid, [{}, {}, {}])
      return { output: { statuses: bought.map(({ status }) => status) } }
    },
  })
  const live = { project: "acme", mode: "live" } as const

  it("lets the parent wait, and go on once it is raised: each child runs once", async () => {
    const warnings: Array<string> = []
    await using engine = await openWith([buyer, paid], {
      log: ({ level, message }) => void (level === "warning" && warnings.push(message)),
    })
    const { operator } = engine
    await operator.setPrice({ name: "paid", currency: "eur", unitAmounts: { units: "1" } })
    await operator.setSpendCap({ project: "acme" }, { currency: "eur", day: "2" })
    const job = await engine.submit("buyer", {}, live)
    const done = async () => (await operator.list({ kind: "paid", status: "done" })).jobs.length
    await expect.poll(done, { timeout: 30_000 }).toBe(2)
    // It looks again, and waits again.
    await expect.poll(() => looks, { timeout: 30_000 }).toBeGreaterThan(2)
    // An attempt that looks is counted until it is parked.
    await expect.poll(() => engine.get(job), { timeout: 30_000 }).toMatchObject({ status: "processing", attempts: 0 })
    expect(await done()).toBe(2)
    await expect
      .poll(() => operator.waitingFor(job), { timeout: 30_000 })
      .toMatchObject([{ reason: "spend_cap", subject: "project", cause: "children" }])
    expect(warnings.filter((line) => line.includes("spend cap")).length).toBeLessThan(4)
    expect(warnings[0]).toBe(
      'the children of step "all" wait: the job could cost up to 1 EUR, which passes the project\'s spend cap for this day',
    )
    await operator.setSpendCap({ project: "acme" }, { currency: "eur", day: "3" })
    expect(await engine.wait(job, { timeoutMs: 60_000 })).toMatchObject({
      status: "done",
      output: { statuses: ["done", "done", "done"] },
    })
    expect(await operator.listSpending()).toMatchObject([{ day: "3", reserved: "0" }])
  })
})
