import { assert, describe, it } from "@effect/vitest"
import type { Job, JobMode } from "@kiln/core/domain"
import { projectShare } from "@kiln/core/rules"
import { defaultEngineSettings, type EngineSettings } from "@kiln/core/effect"
import { ProviderPostponed } from "@kiln/core/providers"
import { Effect } from "effect"
import { isTight, Room } from "../src/worker/claiming/Slots.ts"
import { mp3, principal, speaks, within } from "./support/harness.ts"
import { finished, openBoard, readJob, running, submitSpeech } from "./support/jobs.ts"
import { comesTrue, passTime } from "./support/virtualTime.ts"

/** No poll happens on its own during a test. */
const settings: Partial<EngineSettings> = { concurrency: 8, pollIntervalMs: 3_600_000, leaseDurationMs: 600_000 }
const open = openBoard({ input_characters: "0.000015" })

/** Speech that takes a given time, with a count of concurrent calls. */
const slowSpeech = (duration: "1 second" | "10 minutes") => {
  const seen = { now: 0, most: 0 }
  const providers = speaks(() =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        seen.now += 1
        seen.most = Math.max(seen.most, seen.now)
      }),
      () => Effect.as(Effect.sleep(duration), mp3),
      () => Effect.sync(() => void (seen.now -= 1)),
    ),
  )
  return { seen, providers }
}

const flood = (count: number, who: ReturnType<typeof principal>) =>
  Effect.forEach(Array.from({ length: count }), (_, n) => submitSpeech(`flood ${n}`, who))

describe("the room of a worker", () => {
  const held = (projectId: string, mode: JobMode, count: number) => ({
    mode,
    projectId: `prj_${projectId}` as const,
    count,
  })
  const jobOf = (project: string, mode: JobMode = "sandbox") => ({ mode, projectId: `prj_${project}` }) as Job

  it("counts the jobs of each project, and limits them only beside others of the same mode", () => {
    const room = Room.empty(4, "share")
    for (const job of [jobOf("a"), jobOf("a"), jobOf("b"), jobOf("a", "live")]) room.take(job)
    const before = room.copy().now()
    room.free(jobOf("a"))
    assert.deepStrictEqual(room.now(), {
      free: { live: 3, sandbox: 2 },
      perProject: projectShare(4),
      held: [held("a", "live", 1), held("a", "sandbox", 1), held("b", "sandbox", 1)],
    })
    assert.strictEqual(before.held[1]?.count, 2)
    room.free(jobOf("a"))
    assert.deepStrictEqual([room.now().perProject, room.now().held.length], [0, 2])
    room.take(jobOf("b", "live"))
    assert.strictEqual(room.now().perProject, projectShare(4))
    const limited = Room.empty(4, 3)
    for (const project of ["a", "b"]) limited.take(jobOf(project))
    assert.strictEqual(limited.now().perProject, 0)
  })

  it("is tight without a slot of either mode, or when a project has its share", () => {
    const tight = (live: number, sandbox: number, perProject: number) =>
      isTight({ free: { live, sandbox }, perProject, held: [held("a", "live", 1), held("b", "live", 2)] })
    assert.deepStrictEqual(
      [tight(0, 1, 0), tight(1, 0, 0), tight(1, 1, 0), tight(1, 1, 3), tight(1, 1, 2)],
      [true, true, false, false, true],
    )
  })
})

describe("slots of a worker", () => {
  for (const [flooded, other] of [
    ["sandbox", "live"],
    ["live", "sandbox"],
  ] as const)
    it.effect(`${flooded} jobs that fill their slots leave all slots of ${other} jobs free`, () => {
      const full = slowSpeech("10 minutes")
      const quick = slowSpeech("1 second")
      return Effect.gen(function* () {
        yield* open
        yield* running
        for (const key of ["a", "b", "c"]) yield* flood(8, principal(flooded, key))
        yield* passTime("1 second")
        assert.strictEqual(full.seen.now, 8)
        const who = ["d", "e"].map((key) => principal(other, key))
        const jobs = yield* Effect.forEach(who, (one) =>
          Effect.map(flood(4, one), (all) => all.map(({ id }) => ({ id, one }))),
        )
        for (const { id, one } of jobs.flat())
          assert.strictEqual((yield* finished(id, "2 seconds", one)).status, "done")
        assert.deepStrictEqual([quick.seen.most, full.seen.most], [8, 8])
      }).pipe(within({ [flooded]: full.providers, [other]: quick.providers, settings }))
    })

  const boundsOf = (concurrencyOf: Readonly<Record<string, number>>) => ({
    ...settings,
    providers: Object.fromEntries(
      Object.entries(defaultEngineSettings.providers).map(([name, bounds]) => [
        name,
        { ...bounds, concurrency: concurrencyOf[name] ?? 0 },
      ]),
    ) as EngineSettings["providers"],
  })

  it.effect("are filled again as soon as a job leaves its provider, whose limit is lower", () => {
    const { providers, seen } = slowSpeech("1 second")
    return Effect.gen(function* () {
      yield* open
      const who = principal("live")
      const jobs = yield* flood(12, who)
      yield* running
      yield* passTime("7 seconds")
      for (const { id } of jobs) assert.strictEqual((yield* readJob(id, who)).status, "done")
      assert.strictEqual(seen.most, 2)
    }).pipe(within({ live: providers, settings: boundsOf({ speech: 2 }) }))
  })

  it.effect("are all filled at once, though the provider of another kind allows few jobs", () => {
    const { providers, seen } = slowSpeech("10 minutes")
    return Effect.gen(function* () {
      yield* open
      yield* flood(12, principal("live"))
      yield* running
      yield* passTime("1 second")
      assert.strictEqual(seen.now, 8)
    }).pipe(within({ live: providers, settings: boundsOf({ transcription: 1 }) }))
  })

  it.effect("go to a project that is alone, and the next project gets each that becomes free", () => {
    const { providers, seen } = slowSpeech("1 second")
    return Effect.gen(function* () {
      yield* running
      yield* flood(24, principal("sandbox", "a"))
      yield* passTime("500 millis")
      assert.strictEqual(seen.now, 8)
      const who = principal("sandbox", "b")
      const job = yield* submitSpeech("b", who)
      assert.isTrue(
        yield* comesTrue(
          Effect.map(readJob(job.id, who), ({ status }) => status === "processing"),
          "600 millis",
        ),
      )
    }).pipe(within({ sandbox: providers, settings }))
  })

  it.effect(
    "are shared: beside others, one project gets at most its share, so a third project's job starts immediately",
    () => {
      const { providers, seen } = slowSpeech("10 minutes")
      return Effect.gen(function* () {
        yield* running
        yield* submitSpeech("b", principal("sandbox", "b"))
        yield* flood(30, principal("sandbox", "a"))
        yield* passTime("1 minute")
        assert.strictEqual(seen.now, 7)
        const who = principal("sandbox", "c")
        const job = yield* submitSpeech("c", who)
        yield* comesTrue(
          Effect.map(readJob(job.id, who), ({ status }) => status === "processing"),
          0,
        )
        assert.strictEqual((yield* readJob(job.id, who)).status, "processing")
        assert.strictEqual(seen.most, 8)
      }).pipe(within({ sandbox: providers, settings }))
    },
  )

  it.effect("go to a project when the last job beside it ends", () => {
    let calls = 0
    const sandbox = speaks(() =>
      Effect.suspend(() => Effect.as(Effect.sleep((calls += 1) === 1 ? "1 second" : "10 minutes"), mp3)),
    )
    return Effect.gen(function* () {
      yield* running
      yield* submitSpeech("b", principal("sandbox", "b"))
      yield* flood(30, principal("sandbox", "a"))
      yield* passTime("900 millis")
      assert.strictEqual(calls, 1 + 6)
      yield* passTime("200 millis")
      assert.strictEqual(calls, 1 + 8)
    }).pipe(within({ sandbox, settings }))
  })

  it.effect("are used continuously: a freed slot is taken immediately", () => {
    const { providers, seen } = slowSpeech("1 second")
    return Effect.gen(function* () {
      yield* running
      const who = principal("sandbox", "a")
      const jobs = yield* flood(24, who)
      for (const { id } of jobs) assert.strictEqual((yield* finished(id, "4 seconds", who)).status, "done")
      assert.strictEqual(seen.most, 8)
    }).pipe(within({ sandbox: providers, settings }))
  })

  it.effect("without a share, a project may hold all of them", () => {
    const { providers, seen } = slowSpeech("10 minutes")
    return Effect.gen(function* () {
      yield* running
      yield* flood(30, principal("sandbox", "a"))
      yield* passTime("1 minute")
      assert.strictEqual(seen.now, 8)
    }).pipe(within({ sandbox: providers, settings: { ...settings, limits: { perKind: {}, perProject: 0 } } }))
  })

  it("a share is three quarters of the slots, and at least one", () => {
    assert.deepStrictEqual([1, 2, 3, 4, 8, 10, 64].map(projectShare), [1, 1, 2, 3, 6, 7, 48])
  })
})

describe("a provider that asks to be called again later", () => {
  it.effect("holds no slot until then, costs no budget, and is called once more", () => {
    const asked: Array<number> = []
    const sandbox = speaks((_, { deferrals }) => {
      asked.push(deferrals)
      return deferrals > 0 ? Effect.succeed(mp3) : Effect.fail(new ProviderPostponed({ delayMs: 60_000 }))
    })
    return Effect.gen(function* () {
      yield* running
      const late = yield* Effect.forEach(["a", "b", "c"], (key) => submitSpeech(key))
      yield* passTime("30 seconds")
      assert.deepStrictEqual(asked, [0, 0, 0])
      for (const { id } of late) assert.include(yield* readJob(id), { status: "processing", held: false, failures: 0 })
      for (const { id } of late) {
        const job = yield* finished(id, "45 seconds")
        assert.include(job, { status: "done", attempts: 2, failures: 0, lostWorkers: 0 })
        assert.isAtMost(job.ranMs, 1_000)
      }
    }).pipe(within({ sandbox, settings: { concurrency: 1 } }))
  })

  for (const [delayMs, waitedMs] of [
    [-5, 100],
    [NaN, 100],
    [Infinity, 600_000],
  ] as const)
    it.effect(`waits a limited time if it asks for ${delayMs} ms`, () => {
      const sandbox = speaks((_, { deferrals }) =>
        deferrals > 0 ? Effect.succeed(mp3) : Effect.fail(new ProviderPostponed({ delayMs })),
      )
      return Effect.gen(function* () {
        yield* running
        const { id } = yield* submitSpeech("a")
        const job = yield* finished(id, "11 minutes")
        assert.strictEqual(job.status, "done")
        assert.isAtLeast(job.waitedMs, waitedMs)
        assert.isAtMost(job.waitedMs, waitedMs + 2_000)
      }).pipe(within({ sandbox }))
    })
})
