import { fixtures } from "@kiln/conformance"
import { JobStore, type RetentionRule } from "@kiln/core/ports"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { seedEveryState } from "../support/copiedRecords.ts"
import { installations } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const { newJob, ownerOf } = fixtures
const day = 86_400_000

/** Publishes like a process of another program. */
const publish = (rules: ReadonlyArray<RetentionRule>, ttlMs: number) =>
  Effect.flatMap(JobStore, (store) =>
    store.publishRetention({ publisher: "other", program: "other", rules, ttlMs, graceMs: 0 }),
  )

/** Cancels a job of a type that only an earlier version knew. */
const retiredJob = Effect.flatMap(JobStore, (store) =>
  Effect.andThen(store.createJobs([newJob(70, { kind: "retired", queueCap: 0 })]), store.cancelJobs([newJob(70).id])),
)
const isKept = Effect.flatMap(JobStore, (store) =>
  Effect.map(store.findJobs([{ jobId: newJob(70).id, principal: ownerOf(newJob(70)) }]), ([job]) => job !== undefined),
)

describe.each(installations)("kiln retention on %s", (_name, open) => {
  it("run keeps what a running process keeps longer, and a type without a rule; set gives it one", async () => {
    await using installation = await open()
    const { env } = installation
    const short = { ...env, KILN_DATA_RETENTION: "1s", KILN_JOB_RETENTION: "1s" }
    await installation.use(Effect.andThen(seedEveryState, retiredJob))
    await installation.use(publish([{ kind: "speech_synthesis", dataMs: 9 * day, jobsMs: null }], 600_000))
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    expect(await jsonOf(["retention", "show"], env)).toEqual({
      types: [{ type: "speech_synthesis", data_ms: 9 * day, records_ms: null, processes: 1, agree: true }],
      types_without_rule: expect.arrayContaining(["retired"]),
      unused_uploads: null,
    })
    const due = await jsonOf(["retention", "run", "--dry-run"], short)
    const before = await jsonOf(["job", "list"], env)
    const table = await runInProcess(["retention", "run", "--dry-run"], {
      ...env,
      KILN_DATA_RETENTION: "1s",
      KILN_JOB_RETENTION: "36h",
    })
    expect(table.stdout).toMatch(/^records of unused uploads +after 36h +0$/m)
    const done = await jsonOf(["retention", "run"], short)
    expect([done.expired_data, done.deleted_jobs]).toEqual([due.expired_data, due.deleted_jobs])
    const after = await jsonOf(["job", "list"], env)
    const speech = ({ jobs }: { jobs: ReadonlyArray<{ type: string }> }) =>
      jobs.filter(({ type }) => type === "speech_synthesis")
    expect(speech(after)).toEqual(speech(before))
    expect(await installation.use(isKept)).toBe(true)

    const { stdout } = await runInProcess(["retention", "show"], env)
    expect(stdout).toMatch(/^TYPE +DATA +RECORDS +PUBLISHED BY$/m)
    expect(stdout).toMatch(/^retired +kept +kept +no process yet: start one that knows it, or kiln retention set$/m)
    expect(stdout).toMatch(
      /^speech_synthesis +after 9d +kept indefinitely +1 running; processes differ, and the longest counts$/m,
    )
    expect(
      await refusalOf(["retention", "set", "speech_synthesis", "--data", "1s", "--records", "1s"], env, 2),
    ).toContain("a running process knows speech_synthesis")
    expect(await refusalOf(["retention", "set", "retired", "--data", "soon", "--records", "1s"], env, 2)).toContain(
      "--data must be a duration like 90d",
    )
    await jsonOf(["retention", "set", "retired", "--data", "0", "--records", "1s"], env)
    await jsonOf(["retention", "run"], short)
    expect(await installation.use(isKept)).toBe(false)
    const { changes } = await jsonOf(["audit", "list"], env)
    expect(changes).toContainEqual(
      expect.objectContaining({
        action: "retention.set",
        subject: "retired",
        details: { data_ms: null, records_ms: 1_000 },
      }),
    )
  })

  it("set replaces the last rule of a type whose process has stopped", async () => {
    await using installation = await open()
    const { env } = installation
    await installation.use(publish([{ kind: "retired", dataMs: null, jobsMs: null }], 0))
    await jsonOf(["retention", "set", "retired", "--data", "1d", "--records", "2d"], env)
    expect((await jsonOf(["retention", "show"], env)).types).toEqual([
      { type: "retired", data_ms: day, records_ms: 2 * day, processes: 0, agree: true },
    ])
  })
})
