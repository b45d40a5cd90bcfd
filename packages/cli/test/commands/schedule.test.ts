import { fixtures } from "@kiln/conformance"
import { DeliveryStore, ScheduleStore } from "@kiln/core/ports"
import type { Schedule } from "@kiln/core/worker"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { type Installation, installations } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"
import { seedSchedulesAndFlows, writeSchedule } from "../support/scheduledRecords.ts"

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
const plain = {
  tags: [],
  overlap: "allow",
  jitter_seconds: 0,
  ends_at: null,
  waits: false,
  skipped: 0,
  last_skipped_at: null,
  last_skip_reason: null,
}
const owned = { type: "speech_synthesis", project_id: fixtures.projectId(1), mode: "sandbox", priority: "normal" }

const scheduleIn = ({ use }: Installation, name: string): Promise<Schedule & { readonly nextAt: number | null }> =>
  use(
    Effect.gen(function* () {
      const { schedules } = yield* (yield* ScheduleStore).listSchedules
      const stored = schedules.find((schedule) => schedule.name === name)
      if (stored === undefined) throw new Error(`no schedule ${name}`)
      return { ...(JSON.parse(stored.document) as Schedule), nextAt: stored.nextAt }
    }),
  )

const changesOf = async (env: Installation["env"]) =>
  (await jsonOf(["audit", "list"], env)).changes.map(({ action, subject }: { action: string; subject: string }) => [
    action,
    subject,
  ])

describe.each(installations)("kiln schedule on %s", (_name, open) => {
  it("lists schedules with their times, last jobs and refusals, and nothing of their requests", async () => {
    await using installation = await open()
    const { env, use } = installation
    expect(await jsonOf(["schedule", "list"], env)).toEqual({ schedules: [] })
    expect((await runInProcess(["schedule", "list"], env)).stdout).toMatch(/^no schedules/)
    await use(seedSchedulesAndFlows)
    const other = { projectId: "prj_embedded", keyId: "key_embedded_live", mode: "live" } as const
    await use(writeSchedule("other", Date.now() + 86_400_000, { owner: other }))
    expect((await jsonOf(["schedule", "list"], env)).schedules).toEqual([
      {
        ...owned,
        name: "hourly",
        cron: null,
        time_zone: null,
        every_seconds: 3_600,
        ...plain,
        missed: "once",
        paused: false,
        next_at: "1970-01-01T00:00:06Z",
        last_at: null,
        last_job_id: null,
        refusal: "queue_full",
      },
      {
        ...owned,
        name: "nightly",
        cron: "0 7 * * mon-fri",
        time_zone: "Europe/Berlin",
        every_seconds: null,
        ...plain,
        missed: "once",
        paused: false,
        next_at: "1970-01-01T00:00:05Z",
        last_at: "1970-01-01T00:00:04Z",
        last_job_id: fixtures.jobId(80),
        refusal: null,
      },
      expect.objectContaining({ name: "other", project_id: "prj_embedded", mode: "live", next_at: time }),
      expect.objectContaining({ name: "paused", paused: true, next_at: null }),
    ])
    // A project of an embedded engine has no record, and is found by its name and by its id.
    for (const project of ["embedded", "prj_embedded"])
      expect((await jsonOf(["schedule", "list", "--project", project], env)).schedules).toMatchObject([
        { name: "other" },
      ])
    expect(await refusalOf(["schedule", "list", "--project", "nobody"], env, 1)).toContain('no project "nobody"')
    const { stdout } = await runInProcess(["schedule", "list"], env)
    expect(stdout).toMatch(/^hourly +speech_synthesis +every 3600 s .* refused: queue_full$/m)
    expect(stdout).toMatch(/^nightly +speech_synthesis +0 7 \* \* mon-fri Europe\/Berlin .* due$/m)
    expect(stdout).toMatch(/^paused .* paused$/m)
    expect(stdout + JSON.stringify(await jsonOf(["schedule", "list"], env))).not.toContain("canary")
  })

  it("pauses, resumes and removes a schedule, each once in the audit log", async () => {
    await using installation = await open()
    const { env, use } = installation
    await use(writeSchedule("nightly", 5_000))
    for (let again = 0; again < 2; again++)
      expect(await jsonOf(["schedule", "pause", "nightly"], env)).toEqual({ name: "nightly", paused: true })
    expect(await scheduleIn(installation, "nightly")).toMatchObject({ paused: true, nextAt: null })
    for (let again = 0; again < 2; again++)
      expect(await jsonOf(["schedule", "resume", "nightly"], env)).toEqual({ name: "nightly", paused: false })
    const resumed = await scheduleIn(installation, "nightly")
    expect(resumed.paused).toBe(false)
    // Ticks during the pause get no job.
    expect(resumed.nextAt).toBeGreaterThan(Date.now() - 3_600_000)
    expect(await jsonOf(["schedule", "remove", "nightly"], env)).toEqual({ name: "nightly", removed: true })
    expect(await jsonOf(["schedule", "list"], env)).toEqual({ schedules: [] })
    for (const word of ["pause", "resume", "remove"])
      expect(await refusalOf(["schedule", word, "nightly"], env, 1)).toContain('there is no schedule "nightly"')
    expect(await changesOf(env)).toEqual([
      ["schedule.remove", "nightly"],
      ["schedule.resume", "nightly"],
      ["schedule.pause", "nightly"],
    ])
  })

  it("lists the rules of schedules, and the ticks that got no job", async () => {
    await using installation = await open()
    const { env, use } = installation
    const skipped = { count: 3, tick: 4_000, reason: "overlap" } as const
    const rules = { overlap: "queue", jitterMs: 1_500, endsAt: 9_000, tags: ["ops"], waits: true, skipped } as const
    await use(writeSchedule("nightly", 5_000, rules))
    await use(writeSchedule("over", null, { paused: false }))
    expect((await jsonOf(["schedule", "list"], env)).schedules).toMatchObject([
      {
        overlap: "queue",
        jitter_seconds: 1.5,
        ends_at: "1970-01-01T00:00:09Z",
        tags: ["ops"],
        waits: true,
        skipped: 3,
        last_skipped_at: "1970-01-01T00:00:04Z",
        last_skip_reason: "overlap",
      },
      { name: "over", paused: false, next_at: null },
    ])
    const { stdout } = await runInProcess(["schedule", "list"], env)
    expect(stdout).toMatch(/^nightly .* waits for its last job, 3 skipped$/m)
    expect(stdout).toMatch(/^over .* ended$/m)
  })

  it("submits a job of a schedule once, and records it", async () => {
    await using installation = await open()
    const { env, use } = installation
    await use(writeSchedule("nightly", null))
    const first = await jsonOf(["schedule", "run", "nightly"], env)
    expect(first).toMatchObject({ name: "nightly", status: "queued", deduplicated: false })
    expect(await jsonOf(["schedule", "run", "nightly"], env)).toEqual({ ...first, deduplicated: true })
    expect((await jsonOf(["job", "list"], env)).jobs).toHaveLength(1)
    expect(await scheduleIn(installation, "nightly")).toMatchObject({ paused: true, nextAt: null, last: null })
    expect(await changesOf(env)).toEqual([["schedule.run", "nightly"]])
    expect((await jsonOf(["audit", "list"], env)).changes[0].details).toEqual({ job_id: first.job_id })
    expect(await refusalOf(["schedule", "run", "none"], env, 1)).toContain('there is no schedule "none"')
    await use(writeSchedule("foreign", 5_000, { kind: "digest" }))
    const refusal = await refusalOf(["schedule", "run", "foreign"], env, 1)
    expect(refusal).toContain('foreign was not run: unknown job kind "digest"')
    expect(refusal).toContain("KILN_CONFIG")
  })

  it("changes nothing if the audit log cannot record it", async () => {
    await using installation = await open()
    await installation.use(writeSchedule("nightly", 5_000))
    await installation.refuseAuditEntries()
    for (const word of ["pause", "remove"]) {
      const { exit } = await runInProcess(["schedule", word, "nightly"], installation.env)
      expect(exit).toBe(1)
    }
    expect(await scheduleIn(installation, "nightly")).toMatchObject({ paused: false, nextAt: 5_000 })
  })
})

describe.each(installations)("kiln delivery on %s", (_name, open) => {
  it("lists finished jobs whose delivery is not confirmed", async () => {
    await using installation = await open()
    const { env, use } = installation
    expect(await jsonOf(["delivery", "list"], env)).toEqual({ deliveries: [], pending: [] })
    expect((await runInProcess(["delivery", "list"], env)).stdout).toMatch(/^no finished job waits/)
    await use(seedSchedulesAndFlows)
    expect(await jsonOf(["delivery", "list"], env)).toEqual({
      deliveries: [
        { job_id: fixtures.jobId(83), type: "speech_synthesis", calls: 0, calls_left: 10, due_at: time },
        { job_id: fixtures.jobId(84), type: "speech_synthesis", calls: 2, calls_left: 8, due_at: time },
      ],
      pending: [{ type: "speech_synthesis", count: 2, repeated: 1, oldest_due_seconds: expect.any(Number) }],
    })
    expect((await jsonOf(["delivery", "list", "--limit", "1"], env)).deliveries).toHaveLength(1)
    expect((await runInProcess(["delivery", "list", "--limit", "1"], env)).stdout).toMatch(/\n\n2 in all\n$/)
    expect(await refusalOf(["delivery", "list", "--limit", "0"], env, 2)).toContain("--limit must be from 1 to 1000")
  })

  it("retry lets a finished job be delivered again, once, and records it", async () => {
    await using installation = await open()
    const { env, use } = installation
    await use(seedSchedulesAndFlows)
    const confirmed = fixtures.jobId(84)
    await use(
      Effect.gen(function* () {
        const store = yield* DeliveryStore
        for (const { jobId, token } of yield* store.listDeliveries(10))
          yield* store.settleDeliveries([{ jobId, token, retryInMs: null, counts: true }])
      }),
    )
    expect((await jsonOf(["delivery", "list"], env)).deliveries).toEqual([])
    const retry = ["delivery", "retry", confirmed]
    expect(await jsonOf(retry, env)).toEqual({ job_id: confirmed, redelivered: true })
    expect((await jsonOf(["delivery", "list"], env)).deliveries).toMatchObject([{ job_id: confirmed, calls: 0 }])
    expect(await jsonOf(retry, env)).toEqual({ job_id: confirmed, redelivered: false })
    const { changes } = await jsonOf(["audit", "list"], env)
    expect(changes).toMatchObject([{ action: "delivery.retry", subject: confirmed }])
    expect(await refusalOf(["delivery", "retry", "job_none"], env, 1)).toContain("there is no job")
  })
})
