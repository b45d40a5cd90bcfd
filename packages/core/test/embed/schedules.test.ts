import { createEngine, jobKind, type LogEntry } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { ScheduleStore } from "@kiln/core/ports"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const digest = jobKind({
  name: "digest",
  request: z.object({ to: z.string() }),
  run: async ({ request }) => ({ output: { sent: request.to } }),
})

const hourMs = 3_600_000
const nightly = { kind: "digest", request: { to: "ada" }, cron: "30 2 * * *", timeZone: "Europe/Berlin" } as const

/** A test engine at a time. Its time starts at the epoch. */
const engineAt = async (iso: string) => {
  const kiln = await testEngine({ kinds: [digest], mode: "manual" })
  await kiln.advance(new Date(iso).getTime() - kiln.now().getTime())
  return kiln
}

describe("a schedule", () => {
  it("submits a job at each tick, to the millisecond in virtual time", async () => {
    await using kiln = await engineAt("2030-06-01T00:00:00Z")
    await kiln.schedules.set("nightly", nightly)
    await kiln.advance(3 * 24 * hourMs)
    const { jobs } = await kiln.operator.list()
    expect(jobs.map(({ createdAt }) => createdAt.toISOString())).toEqual([
      "2030-06-03T00:30:00.000Z",
      "2030-06-02T00:30:00.000Z",
      "2030-06-01T00:30:00.000Z",
    ])
    expect(await kiln.schedules.list()).toMatchObject([
      {
        name: "nightly",
        kind: "digest",
        cron: "30 2 * * *",
        timeZone: "Europe/Berlin",
        paused: false,
        nextAt: new Date("2030-06-04T00:30:00Z"),
        lastAt: new Date("2030-06-03T00:30:00Z"),
        lastJobId: jobs[0]?.id,
        refusal: null,
      },
    ])
  })

  it.each([
    // 02:30 does not exist on 31 March: an hour later. It exists twice on 27 October: the first.
    ["2030-03-30T00:00:00Z", ["2030-03-30T01:30", "2030-03-31T01:30", "2030-04-01T00:30"]],
    ["2030-10-26T00:00:00Z", ["2030-10-26T00:30", "2030-10-27T00:30", "2030-10-28T01:30"]],
  ])("follows its time zone through a change of clocks: %s", async (from, ticks) => {
    await using kiln = await engineAt(from)
    await kiln.schedules.set("nightly", nightly)
    await kiln.advance(3 * 24 * hourMs)
    const { jobs } = await kiln.operator.list()
    expect(jobs.map(({ createdAt }) => createdAt.toISOString().slice(0, 16)).reverse()).toEqual(ticks)
  })

  it("ticks at each of several local times that a change of clocks skips", async () => {
    await using kiln = await engineAt("2030-03-30T12:00:00Z")
    await kiln.schedules.set("twice", { ...nightly, cron: "0,30 2 * * *" })
    await kiln.advance(24 * hourMs)
    const { jobs } = await kiln.operator.list()
    expect(jobs.map(({ createdAt }) => createdAt.toISOString().slice(0, 16)).reverse()).toEqual([
      "2030-03-31T01:00",
      "2030-03-31T01:30",
    ])
  })

  it("with an interval begins one interval after it is set", async () => {
    await using kiln = await engineAt("2030-06-01T00:00:00Z")
    await kiln.schedules.set("often", { kind: "digest", request: { to: "a" }, everyMs: 90_000, priority: "high" })
    await kiln.advance(300_000)
    const { jobs } = await kiln.operator.list()
    expect(jobs.map(({ createdAt, priority }) => [createdAt.getTime() % hourMs, priority]).reverse()).toEqual([
      [90_000, "high"],
      [180_000, "high"],
      [270_000, "high"],
    ])
  })

  it("has a priority by name or number, which its jobs get", async () => {
    await using kiln = await engineAt("2030-06-01T00:00:00Z")
    const often = { kind: "digest", request: { to: "a" }, everyMs: 60_000 } as const
    await kiln.schedules.set("named", { ...often, priority: 2 })
    await kiln.schedules.set("numbered", { ...often, priority: -4 })
    const priorities = Object.fromEntries((await kiln.schedules.list()).map(({ name, priority }) => [name, priority]))
    expect(priorities).toEqual({ named: "urgent", numbered: -4 })
    await kiln.advance(60_000)
    const { jobs } = await kiln.operator.list()
    expect(new Set(jobs.map(({ priority }) => priority))).toEqual(new Set(["urgent", -4]))
    await expect(kiln.schedules.set("beyond", { ...often, priority: 6 })).rejects.toThrow(
      "priority must be urgent, high, normal, low or an integer from -5 to 5, not 6",
    )
  })

  it("that is set again stays as it is; with another request or time, it changes", async () => {
    await using kiln = await engineAt("2030-06-01T00:00:00Z")
    const often = { kind: "digest", request: { to: "a" }, everyMs: 60_000 } as const
    await kiln.schedules.set("often", often)
    await kiln.advance(45_000)
    const [before] = await kiln.schedules.list()
    await kiln.schedules.set("often", often)
    expect(await kiln.schedules.list()).toEqual([before])
    await kiln.schedules.set("often", { ...often, request: { to: "b" } })
    expect(await kiln.schedules.list()).toEqual([{ ...before, request: { to: "b" } }])
    await kiln.schedules.set("often", { ...often, everyMs: 61_000 })
    expect((await kiln.schedules.list())[0]?.nextAt).toEqual(new Date(kiln.now().getTime() + 61_000))
  })

  it("can be paused, resumed and removed", async () => {
    await using kiln = await engineAt("2030-06-01T00:00:00Z")
    const count = async () => (await kiln.operator.list()).jobs.length
    await kiln.schedules.set("hourly", { ...nightly, cron: "0 * * * *" })
    await kiln.schedules.pause("hourly")
    await kiln.schedules.set("hourly", { ...nightly, cron: "0 * * * *" })
    expect(await kiln.schedules.list()).toMatchObject([{ paused: true, nextAt: null }])
    await kiln.advance(5 * hourMs)
    expect(await count()).toBe(0)
    await kiln.schedules.resume("hourly")
    await kiln.advance(hourMs)
    expect(await count()).toBe(1)
    await kiln.schedules.remove("hourly")
    await kiln.schedules.remove("hourly")
    await kiln.advance(5 * hourMs)
    expect(await count()).toBe(1)
    expect(await kiln.schedules.list()).toEqual([])
    await expect(kiln.schedules.pause("hourly")).rejects.toThrow('there is no schedule "hourly"')
  })

  it("whose job is refused tries again, and shows why", async () => {
    const told: Array<string> = []
    const log = ({ level, message }: LogEntry) => void (level === "warning" && told.push(message))
    await using kiln = await testEngine({ kinds: [digest], mode: "manual", settings: { queueCap: 1 }, log })
    const began = kiln.now().getTime()
    await kiln.schedules.set("hourly", { ...nightly, cron: "0 * * * *" })
    await kiln.advance(hourMs)
    await kiln.advance(hourMs)
    await kiln.advance(60_000)
    // Once, however often it is tried.
    const at = new Date(began + 2 * hourMs).toISOString()
    expect(told).toEqual([expect.stringContaining(`the schedule "hourly" could not submit its job of ${at}`)])
    expect(await kiln.schedules.list()).toMatchObject([{ refusal: "queue_full", nextAt: new Date(began + 2 * hourMs) }])
    expect(await kiln.drain()).toBe(1)
    await kiln.advance(10_000)
    expect((await kiln.operator.list()).jobs).toHaveLength(2)
    expect(await kiln.schedules.list()).toMatchObject([{ refusal: null, nextAt: new Date(began + 3 * hourMs) }])
  })

  it("that skips missed ticks tries a refused job again as well", async () => {
    await using kiln = await testEngine({ kinds: [digest], mode: "manual", settings: { queueCap: 1 } })
    await kiln.schedules.set("hourly", { ...nightly, cron: "0 * * * *", missed: "skip" })
    await kiln.advance(2 * hourMs)
    await kiln.advance(600_000)
    expect(await kiln.schedules.list()).toMatchObject([{ refusal: "queue_full" }])
    await kiln.drain()
    await kiln.advance(10_000)
    expect((await kiln.operator.list()).jobs).toHaveLength(2)
  })

  it("is not held up by a thousand others that cannot tick", async () => {
    const store = memoryStore()
    const other = jobKind({ name: "other", request: z.object({ to: z.string() }), run: async () => ({ output: {} }) })
    const parts = { store, blobs: memoryBlobs(), log: false } as const
    await using setting = await createEngine({ ...parts, kinds: [digest, other], worker: false })
    const every = { request: { to: "a" }, everyMs: 1_000 }
    for (let n = 0; n < 1_001; n++) await setting.schedules.set(`a${n}`, { ...every, kind: "other" })
    await setting.schedules.set("z", { ...every, kind: "digest" })
    await using engine = await createEngine({ ...parts, kinds: [digest] })
    expect(await new Promise((resolve) => engine.on("completed", resolve))).toMatchObject({ kind: "digest" })
  })

  it("is not held up by one that this process cannot read", async () => {
    const log: Array<LogEntry> = []
    const parts = { store: memoryStore(), blobs: memoryBlobs(), kinds: [digest] } as const
    await using setting = await createEngine({ ...parts, worker: false, log: false })
    await setting.schedules.set("a", nightly)
    const atOnce = ScheduleStore.use((store) =>
      Effect.flatMap(store.findSchedule("a"), ({ schedules: [stored] }) =>
        // As if another process had a newer list of time zones.
        store.writeSchedule("a", stored?.version ?? 0, {
          nextAt: 1,
          document: stored?.document.replace("Europe/Berlin", "Europe/Atlantis") ?? "",
        }),
      ),
    )
    expect(await Effect.runPromiseWith(embeddedContext(setting))(atOnce)).toBe(true)
    await setting.schedules.set("b", { kind: "digest", request: { to: "ada" }, everyMs: 1_000 })
    await using engine = await createEngine({ ...parts, log: (entry) => log.push(entry) })
    expect(await new Promise((resolve) => engine.on("completed", resolve))).toMatchObject({ kind: "digest" })
    expect(log.map(({ message }) => message).join("\n")).toContain('this process cannot handle the schedule "a"')
  })

  it("runs in real time, in whatever process has a worker, as soon as it is set", async () => {
    const store = memoryStore()
    const parts = { store, blobs: memoryBlobs(), kinds: [digest], log: false } as const
    await using engine = await createEngine(parts)
    const done = new Promise((resolve) => engine.on("completed", resolve))
    await engine.schedules.set("soon", { kind: "digest", request: { to: "ada" }, everyMs: 1_000 })
    expect(await done).toMatchObject({ kind: "digest" })
  })
})

describe("a schedule is checked when it is set", () => {
  it.each([
    ["a name", "a b", nightly, "the name of a schedule"],
    ["an unknown kind", "a", { ...nightly, kind: "digst" }, "digest"],
    ["an invalid request", "a", { ...nightly, request: { to: 1 } }, "to"],
    ["no time", "a", { kind: "digest", request: { to: "a" } }, "one of cron and everyMs"],
    ["both times", "a", { ...nightly, everyMs: 1_000 }, "one of cron and everyMs"],
    ["six fields", "a", { ...nightly, cron: "0 0 * * * *" }, "five fields"],
    ["a wrong field", "a", { ...nightly, cron: "61 * * * *" }, 'invalid cron "61 * * * *"'],
    ["a day that never comes", "a", { ...nightly, cron: "0 0 31 2 *" }, "never occurs"],
    [
      "an unknown zone",
      "a",
      { ...nightly, timeZone: "Europe/Berln" },
      'unknown timeZone "Europe/Berln"; use an IANA name',
    ],
    ["a short interval", "a", { kind: "digest", request: { to: "a" }, everyMs: 10 }, "everyMs must be"],
    ["an unknown option", "a", { ...nightly, timezone: "UTC" }, 'did you mean "timeZone"?'],
    ["an unknown rule for missed ticks", "a", { ...nightly, missed: "all" }, "missed"],
  ])("%s", async (_, name, schedule, message) => {
    await using engine = await openWith([digest], { autoStart: false })
    await expect(engine.schedules.set(name, schedule as never)).rejects.toThrow(message)
    expect(await engine.schedules.list()).toEqual([])
  })
})
