import { jobKind } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"

const minuteMs = 60_000
const hourMs = 60 * minuteMs

const digest = jobKind({
  name: "digest",
  request: z.object({ to: z.string() }),
  run: async () => ({ output: {} }),
})
const hourly = { kind: "digest", request: { to: "ada" }, cron: "0 * * * *" } as const

const engineOf = async (queueCap = 0) =>
  testEngine({
    kinds: [digest],
    mode: "manual",
    startAt: new Date("2030-06-01T00:00:00Z"),
    settings: { queueCap },
  })

const listed = async ({ schedules }: Pick<Awaited<ReturnType<typeof engineOf>>, "schedules">) => {
  const [schedule] = await schedules.list()
  if (schedule === undefined) throw new Error("there is no schedule")
  return schedule
}

describe("a tick that waited", () => {
  it.each([
    ["rule", { ...hourly, overlap: "skip" }],
    ["time", { ...hourly, overlap: "queue", cron: "15 * * * *" }],
  ] as const)("is forgotten when the schedule is set with another %s that gives it no job", async (_, next) => {
    await using kiln = await engineOf()
    await kiln.schedules.set("hourly", { ...hourly, overlap: "queue" })
    await kiln.advance(2 * hourMs)
    expect(await listed(kiln)).toMatchObject({ waits: true })
    await kiln.schedules.set("hourly", next)
    await kiln.advance(1_000)
    expect(await listed(kiln)).toMatchObject({ waits: false, refusal: null })
    expect((await listed(kiln)).nextAt?.getTime()).toBeGreaterThan(kiln.now().getTime())
  })
})

describe("a refused tick", () => {
  it("is tried again until the next one, also if the tick before was refused, and those are skipped when they are late", async () => {
    await using kiln = await engineOf(1)
    await kiln.schedules.set("hourly", { ...hourly, missed: "skip" })
    await kiln.submit("digest", { to: "ada" })
    // At the second tick, and later than a missed one may be.
    await kiln.advance(2 * hourMs)
    await kiln.advance(5 * minuteMs)
    const { nextAt } = await listed(kiln)
    expect(await listed(kiln)).toMatchObject({ refusal: "queue_full", skipped: 1, lastAt: null })
    await kiln.drain()
    await kiln.advance(5_000)
    expect(await listed(kiln)).toMatchObject({ refusal: null, lastAt: nextAt })
  })

  it("is forgotten when the schedule is set with another time", async () => {
    await using kiln = await engineOf(1)
    await kiln.schedules.set("hourly", hourly)
    await kiln.submit("digest", { to: "ada" })
    await kiln.advance(hourMs)
    expect(await listed(kiln)).toMatchObject({ refusal: "queue_full" })
    await kiln.schedules.set("hourly", { ...hourly, cron: "0 0 1 1 *" })
    expect(await listed(kiln)).toMatchObject({ refusal: null })
  })
})
