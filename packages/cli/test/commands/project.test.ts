import { fixtures } from "@kiln/conformance"
import { IdGenerator, JobStore, KeyDirectory, Switchboard } from "@kiln/core/ports"
import { createKey } from "@kiln/service-lab"
import { createHash } from "node:crypto"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { seedEveryState } from "../support/copiedRecords.ts"
import { seedSchedulesAndFlows, writeSchedule } from "../support/scheduledRecords.ts"
import { installations, type Installation } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)

/** Whether a server would accept this secret. */
const isKnown = (installation: Installation, secret: string): Promise<boolean> =>
  installation.use(
    Effect.flatMap(KeyDirectory, (keys) =>
      Effect.map(keys.findKey(createHash("sha256").update(secret).digest("hex")), (found) => found !== undefined),
    ),
  )

describe.each(installations)("kiln project on %s", (_name, open) => {
  it("disable rejects the keys of one project until it is enabled", async () => {
    await using installation = await open()
    const { env } = installation
    const [one, two] = await installation.use(
      Effect.provide(Effect.all([createKey({}), createKey({})]), IdGenerator.layer),
    )
    expect(await jsonOf(["project", "disable", one.projectId], env)).toEqual({
      project_id: one.projectId,
      name: one.projectId,
      disabled_at: time,
      paused_schedules: [],
    })
    expect([await isKnown(installation, one.secret), await isKnown(installation, two.secret)]).toEqual([false, true])
    expect((await jsonOf(["project", "list"], env)).projects).toMatchObject([{ disabled_at: time }, {}])
    expect((await runInProcess(["project", "list"], env)).stdout).toMatch(/disabled since \S+Z\n/)
    expect(await jsonOf(["project", "enable", one.projectId], env)).toMatchObject({ disabled_at: null })
    expect(await isKnown(installation, one.secret)).toBe(true)
    expect((await jsonOf(["audit", "list"], env)).changes.map(({ action }: { action: string }) => action)).toEqual([
      "project.enable",
      "project.disable",
    ])
    expect(await refusalOf(["project", "disable", "nobody"], env, 1)).toContain('there is no project "nobody"')
  })

  it("disable pauses the project's schedules, which need no key, and enable leaves them to the operator", async () => {
    await using installation = await open()
    const { env, use } = installation
    await use(seedEveryState)
    const foreign = { projectId: fixtures.projectId(2), keyId: fixtures.keyId(3), mode: "sandbox" } as const
    await use(
      Effect.all([
        writeSchedule("own", 5_000),
        writeSchedule("paused", null),
        writeSchedule("foreign", 5_000, { owner: foreign }),
      ]),
    )
    const paused = async () =>
      (await jsonOf(["schedule", "list"], env)).schedules.flatMap((schedule: { name: string; paused: boolean }) =>
        schedule.paused ? [schedule.name] : [],
      )
    expect(await jsonOf(["project", "disable", "one"], env)).toMatchObject({ paused_schedules: ["own"] })
    expect(await paused()).toEqual(["own", "paused"])
    await jsonOf(["project", "enable", "one"], env)
    expect(await paused()).toEqual(["own", "paused"])
    expect((await jsonOf(["audit", "list"], env)).changes).toMatchObject([
      { action: "project.enable" },
      { action: "schedule.pause", subject: "own" },
      { action: "project.disable" },
    ])
  })

  it("erase removes schedules, and works for a project of an embedded engine, which has no record", async () => {
    await using installation = await open()
    const { env, use } = installation
    const owner = { projectId: "prj_shop", keyId: "key_shop_sandbox", mode: "sandbox" } as const
    await use(
      Effect.gen(function* () {
        yield* seedSchedulesAndFlows
        yield* writeSchedule("shop", 5_000, { owner })
        yield* (yield* JobStore).createJobs([fixtures.newJob(95, { ...owner, request: { input: "a secret" } })])
      }),
    )
    expect(await refusalOf(["project", "erase", "shop", "--confirm", "prj_shop"], env, 2)).toContain(
      "--confirm must be",
    )
    expect(await jsonOf(["project", "erase", "prj_shop", "--confirm", "shop"], env)).toEqual({
      project_id: "prj_shop",
      name: "shop",
      revoked_keys: 0,
      removed_schedules: 1,
      canceled_jobs: 1,
      erased_jobs: 1,
    })
    const { schedules } = await jsonOf(["schedule", "list"], env)
    expect(schedules.map(({ name }: { name: string }) => name)).toEqual(["hourly", "nightly", "paused"])
    expect((await jsonOf(["job", "list", "--project", "shop"], env)).jobs).toMatchObject([{ data: "deleted" }])
    expect((await jsonOf(["job", "list", "--status", "queued"], env)).jobs).toHaveLength(2)
    expect((await jsonOf(["audit", "list"], env)).changes).toMatchObject([
      { action: "project.erase", subject: "prj_shop", details: { name: "shop" } },
    ])
    expect(await refusalOf(["project", "erase", "nobody", "--confirm", "nobody"], env, 1)).toContain(
      "there is no project",
    )
  })

  it("limit shows, sets and removes how many jobs of a project run at the same time", async () => {
    await using installation = await open()
    const { env } = installation
    const [one, two] = await installation.use(
      Effect.provide(Effect.all([createKey({}), createKey({})]), IdGenerator.layer),
    )
    const fields = ({ projectId }: typeof one, concurrency: unknown) => ({
      project_id: projectId,
      name: projectId,
      concurrency,
    })
    const limits = () =>
      installation.use(
        Effect.flatMap(Switchboard, (board) => Effect.map(board.readBoard, (read) => read.projectConcurrency)),
      )
    expect(await jsonOf(["project", "limit"], env)).toEqual({ projects: [] })
    expect(await jsonOf(["project", "limit", one.projectId], env)).toEqual(fields(one, null))
    expect(await jsonOf(["project", "limit", one.projectId, "--concurrency", "4"], env)).toEqual(fields(one, 4))
    expect(await jsonOf(["project", "limit", two.projectId, "--concurrency", "none"], env)).toEqual(fields(two, "none"))
    expect(await limits()).toEqual({ [one.projectId]: 4, [two.projectId]: 0 })
    expect((await jsonOf(["project", "limit"], env)).projects).toEqual([fields(one, 4), fields(two, "none")])
    expect((await runInProcess(["project", "limit"], env)).stdout).toMatch(/no limit\n/)
    expect(await jsonOf(["project", "limit", one.projectId, "--clear"], env)).toEqual(fields(one, null))
    expect(await limits()).toEqual({ [two.projectId]: 0 })
    expect((await jsonOf(["audit", "list"], env)).changes.map(({ action }: { action: string }) => action)).toEqual([
      "project.limit.clear",
      "project.limit.set",
      "project.limit.set",
    ])
    for (const wrong of ["0", "-1", "1.5", "many"])
      expect(await refusalOf(["project", "limit", one.projectId, `--concurrency=${wrong}`], env, 2)).toContain(
        "--concurrency must be a positive integer, or none for no limit",
      )
    expect(await refusalOf(["project", "limit", "--concurrency", "4"], env, 2)).toContain("which project?")
  })

  it("erase takes the data, jobs and keys of one project, and of no other", async () => {
    await using installation = await open()
    const { env } = installation
    await installation.use(seedEveryState)
    const other = { ...fixtures.newJob(60), projectId: fixtures.projectId(2), keyId: fixtures.keyId(3) }
    await installation.use(
      Effect.gen(function* () {
        yield* (yield* KeyDirectory).createProject({ id: fixtures.projectId(2), name: "two" })
        yield* (yield* KeyDirectory).createKey(fixtures.newApiKey(3, { projectId: fixtures.projectId(2) }))
        yield* (yield* JobStore).createJobs([other])
      }),
    )
    expect(await refusalOf(["project", "erase", "one", "--confirm", "two"], env, 2)).toContain("--confirm must be")
    expect((await runInProcess(["project", "erase", "one"], env)).exit).toBe(2)
    expect((await jsonOf(["job", "list", "--status", "queued"], env)).jobs).toHaveLength(4)

    const erased = await jsonOf(["project", "erase", "one", "--confirm", "one"], env)
    // Jobs 1, 2, 3, 7, 10 and 11 are unfinished, and 9 has lost its data before.
    expect(erased).toEqual({
      project_id: fixtures.projectId(1),
      name: "one",
      revoked_keys: 1,
      removed_schedules: 0,
      canceled_jobs: 6,
      erased_jobs: 10,
    })
    const { jobs } = await jsonOf(["job", "list", "--project", "one"], env)
    expect(jobs).toHaveLength(11)
    for (const job of jobs) expect(job).toMatchObject({ data: "deleted", status: expect.stringMatching(/done|failed/) })
    expect((await jsonOf(["job", "list", "--project", "two"], env)).jobs).toMatchObject([
      { status: "queued", data: "kept" },
    ])
    const { keys } = await jsonOf(["key", "list"], env)
    expect(keys.map(({ status }: { status: string }) => status)).toEqual(["revoked", "revoked", "active"])
    expect(await jsonOf(["project", "erase", "one", "--confirm", "one"], env)).toMatchObject({
      revoked_keys: 0,
      canceled_jobs: 0,
      erased_jobs: 0,
    })
  })
})
