import { createEngine, type EmbeddedEngine, jobKind, type ScheduleOptions } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { ScheduleStore } from "@kiln/core/ports"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** A kind that records the ticks of its jobs, and fails those for which it is told so. */
const recording = () => {
  const ticks: Array<string> = []
  const digest = jobKind({
    name: "digest",
    request: z.object({ to: z.string() }),
    run: async ({ request, schedule, tags }) => {
      const at = (time: Date | null | undefined) => time?.toISOString().slice(5, 16) ?? "none"
      ticks.push([schedule?.name ?? "no schedule", at(schedule?.previousAt), at(schedule?.tickAt), ...tags].join(" "))
      if (request.to === "nobody") throw new Error("nobody")
      return { output: {} }
    },
  })
  return { ticks, digest }
}

const { digest } = recording()
type Digest = typeof digest
const hourly = { kind: "digest", request: { to: "ada" }, cron: "0 * * * *" } as const

const engineOf = async (kind: Digest, startAt = "2030-06-01T00:00:00Z") =>
  testEngine({ kinds: [kind], mode: "manual", startAt: new Date(startAt) })

const listed = async (engine: EmbeddedEngine) => {
  const [schedule] = await engine.schedules.list()
  if (schedule === undefined) throw new Error("there is no schedule")
  return schedule
}

const createdAt = async (engine: EmbeddedEngine) =>
  (await engine.operator.list({ limit: 500 })).jobs.map(({ createdAt: at }) => at.toISOString().slice(5, 16)).reverse()

/** Moves the schedule's next tick, as if no worker had run since. An interval begins there. */
const missedSince = (engine: EmbeddedEngine, name: string, since: Date) =>
  Effect.runPromiseWith(embeddedContext(engine))(
    ScheduleStore.use((store) =>
      Effect.flatMap(store.findSchedule(name), ({ schedules: [stored] }) =>
        store.writeSchedule(name, stored?.version ?? 0, {
          nextAt: since.getTime(),
          document: (stored?.document ?? "").replace(/"from":\d+/, `"from":${since.getTime()}`),
        }),
      ),
    ),
  )

describe("a job of a schedule", () => {
  it("gets its tick and the last one before that has a job; others get none", async () => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind)
    await kiln.schedules.set("hourly", { ...hourly, tags: ["daily", "daily", "ops"] })
    await kiln.submit("digest", { to: "ada" })
    await kiln.advance(2 * hourMs)
    await kiln.drain()
    expect(ticks).toEqual([
      "no schedule none none",
      "hourly none 06-01T01:00 daily ops",
      "hourly 06-01T01:00 06-01T02:00 daily ops",
    ])
    expect((await kiln.operator.list({ tags: ["ops"] })).jobs).toHaveLength(2)
  })

  it("keeps its tick when it is retried", async () => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind)
    await kiln.schedules.set("hourly", { ...hourly, request: { to: "nobody" } })
    await kiln.advance(hourMs)
    await kiln.drain({ throughRetries: true })
    const [failed] = (await kiln.operator.list({ status: "failed" })).jobs
    await kiln.operator.retry(failed?.id ?? "job_none")
    await kiln.drain()
    expect(new Set(ticks)).toEqual(new Set(["hourly none 06-01T01:00"]))
    expect(ticks.length).toBeGreaterThan(1)
  })
})

describe("a tick while the last job is unfinished", () => {
  it("gets a job by default", async () => {
    await using kiln = await engineOf(digest)
    await kiln.schedules.set("hourly", hourly)
    await kiln.advance(3 * hourMs)
    expect(await createdAt(kiln)).toHaveLength(3)
    expect(await listed(kiln)).toMatchObject({ overlap: "allow", skipped: 0, lastSkippedAt: null })
  })

  it("is skipped with `skip`, and the next job's times have no gap", async () => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind)
    await kiln.schedules.set("hourly", { ...hourly, overlap: "skip" })
    await kiln.advance(3 * hourMs)
    expect(await createdAt(kiln)).toEqual(["06-01T01:00"])
    expect(await listed(kiln)).toMatchObject({
      skipped: 2,
      lastSkippedAt: new Date("2030-06-01T03:00:00Z"),
      lastSkipReason: "overlap",
      refusal: null,
    })
    await kiln.drain()
    await kiln.advance(hourMs)
    await kiln.drain()
    expect(ticks).toEqual(["hourly none 06-01T01:00", "hourly 06-01T01:00 06-01T04:00"])
  })

  it.each([
    ["once", ["06-01T01:00", "06-01T03:30"], 1],
    ["each", ["06-01T01:00", "06-01T03:30", "06-01T03:40"], 0],
  ] as const)("waits with `queue`; of several, `missed: %s` decides", async (missed, created, skipped) => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind)
    await kiln.schedules.set("hourly", { ...hourly, overlap: "queue", missed })
    await kiln.advance(3 * hourMs)
    expect(await listed(kiln)).toMatchObject({ waits: true, skipped })
    await kiln.advance(30 * minuteMs - 1_000)
    expect(await kiln.drain()).toBe(1)
    await kiln.advance(1_000)
    await kiln.advance(10 * minuteMs - 1_000)
    await kiln.drain()
    await kiln.advance(1_000)
    await kiln.drain()
    expect(await createdAt(kiln)).toEqual(created)
    expect(ticks.at(-1)).toContain("06-01T03:00")
    expect(await listed(kiln)).toMatchObject({ waits: false, skipped })
  })

  it("also counts a retry of the last job", async () => {
    await using kiln = await engineOf(digest)
    await kiln.schedules.set("hourly", { ...hourly, request: { to: "nobody" }, overlap: "skip" })
    await kiln.advance(hourMs)
    await kiln.drain({ throughRetries: true })
    const { lastJobId } = await listed(kiln)
    await kiln.operator.retry(lastJobId ?? "job_none")
    await kiln.advance(hourMs)
    expect(await listed(kiln)).toMatchObject({ skipped: 1, lastJobId })
  })

  it("waits no longer once the schedule was set to allow it", async () => {
    await using kiln = await engineOf(digest)
    await kiln.schedules.set("hourly", { ...hourly, overlap: "queue" })
    await kiln.advance(2 * hourMs)
    await kiln.schedules.set("hourly", hourly)
    await kiln.advance(1_000)
    expect(await createdAt(kiln)).toHaveLength(2)
  })
})

describe("missed ticks", () => {
  it.each([
    ["once", ["06-01T10:30"], 9],
    ["skip", [], 10],
    ["each", Array.from({ length: 10 }, () => "06-01T10:30"), 0],
  ] as const)("with `%s`: each has a job or is counted", async (missed, created, skipped) => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind, "2030-06-01T10:29:59Z")
    await kiln.schedules.set("hourly", { ...hourly, missed })
    await missedSince(kiln, "hourly", new Date("2030-06-01T01:00:00Z"))
    await kiln.advance(1_000)
    await kiln.drain()
    expect(await createdAt(kiln)).toEqual(created)
    expect(await listed(kiln)).toMatchObject({ skipped, nextAt: new Date("2030-06-01T11:00:00Z") })
    const hours = ticks.map((tick) => tick.slice(-5))
    expect(hours).toEqual(
      Array.from({ length: 10 }, (_, hour) => `${`${hour + 1}`.padStart(2, "0")}:00`).slice(10 - created.length),
    )
  })

  it.each([
    ["an interval", { everyMs: minuteMs } as const, 3 * 24 * 60 - 100],
    ["a cron expression", { cron: "* * * * *" } as const, 1_000],
    ["a cron expression with long gaps", { cron: "* 0 * * *" } as const, 3 * 60 - 100],
  ])("backfill the last hundred of %s", async (_name, times, skipped) => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind, "2030-06-04T00:00:00Z")
    await kiln.schedules.set("often", { kind: "digest", request: { to: "a" }, ...times, missed: "each" } as const)
    const { nextAt } = await listed(kiln)
    const first = new Date((nextAt?.getTime() ?? 0) - 3 * 24 * hourMs)
    await missedSince(kiln, "often", first)
    await kiln.advance(1_000)
    await kiln.drain()
    expect(ticks).toHaveLength(100)
    // Each of them follows the one before.
    const tickAt = ticks.map((tick) => tick.split(" ")[2])
    expect(ticks.slice(1).map((tick) => tick.split(" ")[1])).toEqual(tickAt.slice(0, -1))
    expect(await listed(kiln)).toMatchObject({ skipped })
  })

  it("follow the clock through a change to summer time", async () => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind, "2030-03-31T12:00:00Z")
    await kiln.schedules.set("twice", {
      ...hourly,
      cron: "0,30 2 * * *",
      timeZone: "Europe/Berlin",
      missed: "each",
    })
    await missedSince(kiln, "twice", new Date("2030-03-30T01:00:00Z"))
    await kiln.advance(1_000)
    await kiln.drain()
    expect(ticks.map((tick) => tick.split(" ")[2])).toEqual([
      "03-30T01:00",
      "03-30T01:30",
      "03-31T01:00",
      "03-31T01:30",
    ])
  })
})

describe("a schedule", () => {
  it("ends, and continues when it is set with a later end", async () => {
    await using kiln = await engineOf(digest)
    const endsAt = new Date("2030-06-01T02:00:00Z")
    await kiln.schedules.set("hourly", { ...hourly, endsAt })
    await kiln.advance(5 * hourMs)
    expect(await createdAt(kiln)).toEqual(["06-01T01:00", "06-01T02:00"])
    expect(await listed(kiln)).toMatchObject({ nextAt: null, paused: false, endsAt })
    await kiln.schedules.set("hourly", { ...hourly, endsAt })
    expect(await listed(kiln)).toMatchObject({ nextAt: null })
    await kiln.schedules.pause("hourly")
    await kiln.schedules.resume("hourly")
    expect(await listed(kiln)).toMatchObject({ nextAt: null })
    await kiln.schedules.set("hourly", hourly)
    await kiln.advance(hourMs)
    expect(await createdAt(kiln)).toEqual(["06-01T01:00", "06-01T02:00", "06-01T06:00"])
    await kiln.schedules.set("hourly", { ...hourly, endsAt: new Date(0) })
    expect(await listed(kiln)).toMatchObject({ nextAt: null })
  })

  it("that had its last tick while no worker was running still submits it", async () => {
    await using kiln = await engineOf(digest, "2030-06-01T10:00:00Z")
    await kiln.schedules.set("hourly", { ...hourly, endsAt: new Date("2030-06-01T11:30:00Z") })
    await missedSince(kiln, "hourly", new Date("2030-06-01T09:00:00Z"))
    await kiln.advance(1_000)
    expect(await createdAt(kiln)).toHaveLength(1)
    await kiln.advance(5 * hourMs)
    expect(await createdAt(kiln)).toHaveLength(2)
    expect(await listed(kiln)).toMatchObject({ nextAt: null, lastAt: new Date("2030-06-01T11:00:00Z") })
  })

  it("delays its jobs by its jitter, each by another time and not beyond it", async () => {
    const { digest: kind } = recording()
    await using kiln = await engineOf(kind)
    for (let n = 0; n < 20; n++) await kiln.schedules.set(`s${n}`, { ...hourly, jitterMs: 10 * minuteMs })
    await kiln.advance(hourMs)
    const { jobs } = await kiln.operator.list()
    expect(jobs).toHaveLength(20)
    let ran = await kiln.drain()
    expect(ran).toBeLessThan(5)
    await kiln.advance(5 * minuteMs)
    const half = await kiln.drain()
    expect(half).toBeGreaterThan(2)
    await kiln.advance(5 * minuteMs)
    ran += half + (await kiln.drain())
    expect(ran).toBe(20)
  })

  it("that is set again with the same rules stays as it is", async () => {
    await using kiln = await engineOf(digest)
    const rules: ScheduleOptions<Digest> = {
      ...hourly,
      overlap: "queue",
      missed: "each",
      tags: ["a"],
      jitterMs: 1_000,
      endsAt: new Date("2040-01-01"),
    }
    await kiln.schedules.set("hourly", rules)
    await kiln.advance(2 * hourMs)
    const before = await listed(kiln)
    expect(before).toMatchObject({ overlap: "queue", missed: "each", tags: ["a"], jitterMs: 1_000, waits: true })
    await kiln.schedules.set("hourly", rules)
    expect(await listed(kiln)).toEqual(before)
    await kiln.schedules.set("hourly", { ...rules, tags: [] })
    expect(await listed(kiln)).toEqual({ ...before, tags: [] })
  })

  it.each([
    ["overlap", { overlap: "never" }, "overlap"],
    ["tags", { tags: [""] }, "tags"],
    ["jitter", { jitterMs: -1 }, "jitterMs"],
    ["jitter beyond a day", { jitterMs: 86_400_001 }, "jitterMs"],
    ["jitter beyond the interval", { cron: undefined, everyMs: 60_000, jitterMs: 60_001 }, "jitterMs"],
    ["an end that is no date", { endsAt: "2030-01-01" }, "endsAt must be a valid Date"],
    ["an invalid end", { endsAt: new Date("never") }, "endsAt must be a valid Date"],
  ])("is checked when it is set: %s", async (_name, rules, message) => {
    await using engine = await openWith([digest], { autoStart: false })
    await expect(engine.schedules.set("a", { ...hourly, ...rules } as never)).rejects.toThrow(message)
  })
})

describe("runNow", () => {
  it("submits a job at once, also while paused, and leaves the ticks as they are", async () => {
    const { digest: kind, ticks } = recording()
    await using kiln = await engineOf(kind)
    await kiln.schedules.set("hourly", { ...hourly, tags: ["ops"] })
    await kiln.advance(90 * minuteMs)
    await kiln.drain()
    const before = await listed(kiln)
    const job = await kiln.schedules.runNow("hourly")
    expect(job).toMatchObject({ kind: "digest", status: "queued", tags: ["ops"] })
    expect(job.deduplicated).toBeUndefined()
    expect(await listed(kiln)).toEqual(before)
    await kiln.schedules.pause("hourly")
    await kiln.drain()
    expect((await kiln.schedules.runNow("hourly")).id).not.toBe(job.id)
    await kiln.schedules.resume("hourly")
    await kiln.advance(30 * minuteMs)
    await kiln.drain()
    expect(ticks).toEqual([
      "hourly none 06-01T01:00 ops",
      "hourly 06-01T01:00 06-01T01:30 ops",
      "hourly 06-01T01:00 06-01T01:30 ops",
      "hourly 06-01T01:00 06-01T02:00 ops",
    ])
  })

  it("of many calls at once, one submits a job; with a key also later", async () => {
    await using kiln = await engineOf(digest)
    await kiln.schedules.set("hourly", hourly)
    const jobs = await Promise.all(Array.from({ length: 8 }, () => kiln.schedules.runNow("hourly")))
    expect(new Set(jobs.map(({ id }) => id)).size).toBe(1)
    expect(jobs.filter(({ deduplicated }) => deduplicated !== true)).toHaveLength(1)
    await kiln.drain()
    const keyed = await kiln.schedules.runNow("hourly", { idempotencyKey: "click-1" })
    expect(keyed.id).not.toBe(jobs[0]?.id)
    await kiln.drain()
    expect((await kiln.schedules.runNow("hourly", { idempotencyKey: "click-1" })).id).toBe(keyed.id)
    await kiln.schedules.set("other", hourly)
    expect((await kiln.schedules.runNow("other", { idempotencyKey: "click-1" })).id).not.toBe(keyed.id)
  })

  it("counts as the last job where jobs must not overlap, in both directions", async () => {
    await using kiln = await engineOf(digest)
    await kiln.schedules.set("hourly", { ...hourly, overlap: "skip" })
    const job = await kiln.schedules.runNow("hourly")
    await kiln.advance(hourMs)
    expect(await listed(kiln)).toMatchObject({ skipped: 1, lastAt: null })
    await kiln.drain()
    await kiln.advance(hourMs)
    const { lastJobId } = await listed(kiln)
    expect(lastJobId).not.toBe(job.id)
    expect(await kiln.schedules.runNow("hourly")).toMatchObject({ id: lastJobId, deduplicated: true })
  })

  it("keeps the refusal of the current tick", async () => {
    await using kiln = await testEngine({ kinds: [digest], mode: "manual", settings: { queueCap: 1 } })
    await kiln.schedules.set("hourly", { ...hourly, missed: "skip" })
    await kiln.advance(2 * hourMs)
    const before = await listed(kiln)
    expect(before.refusal).toBe("queue_full")
    await expect(kiln.schedules.runNow("hourly")).rejects.toThrow("queue")
    await kiln.drain()
    await kiln.schedules.runNow("hourly")
    expect(await listed(kiln)).toEqual(before)
  })

  it("rejects an unknown name, an unknown kind and an invalid key", async () => {
    const parts = { store: memoryStore(), blobs: memoryBlobs(), worker: false, log: false } as const
    await using engine = await createEngine({ ...parts, kinds: [digest] })
    await expect(engine.schedules.runNow("none")).rejects.toThrow('there is no schedule "none"')
    await engine.schedules.set("hourly", hourly)
    await expect(engine.schedules.runNow("hourly", { idempotencyKey: "a b" })).rejects.toThrow("idempotencyKey")
    const other = jobKind({ name: "other", request: z.object({}), run: async () => ({ output: {} }) })
    await using without = await createEngine({ ...parts, kinds: [other] })
    await expect(without.schedules.runNow("hourly")).rejects.toMatchObject({ code: "kind_unknown" })
  })
})
