import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fixtures } from "@kiln/conformance"
import { withClient } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { seedEveryState } from "../support/copiedRecords.ts"
import { writeSchedule } from "../support/scheduledRecords.ts"
import { copyOf, copySqlite } from "../support/copies.ts"
import { installations, sqliteInstallation } from "../support/installations.ts"
import { refusalOf, runInProcess } from "../support/runInProcess.ts"

const { jobId } = fixtures

type Environment = Readonly<Record<string, string>>

/** Job 6 is live and done, job 7 is live and in progress, job 4 has a file, job 8 an upload. */
const [charged6, running, withFile, withUpload] = [jobId(6), jobId(7), jobId(4), jobId(8)]

/** The answer of a command that succeeds. It may warn: the data directory of a copy holds no files. */
const jsonOf = async (args: ReadonlyArray<string>, env: Environment) => {
  const { exit, stderr, stdout } = await runInProcess([...args, "--json"], env)
  expect(exit, stderr).toBe(0)
  return JSON.parse(stdout)
}

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const

/** The message of a start that is refused. A server listens to signals until its process ends, and here that goes on. */
const refusedStart = async (env: Environment, role: string): Promise<string> => {
  const before = signals.map((signal) => process.listeners(signal))
  const refusal = await refusalOf(["serve"], { ...env, KILN_ROLE: role, PORT: "0" }, 1)
  for (const [n, signal] of signals.entries())
    for (const listener of process.listeners(signal))
      if (before[n]?.includes(listener) === false) process.removeListener(signal, listener)
  return refusal
}

/** Uses an installation for the first time, as a server's start does. Its sweeps do nothing. */
const use = (env: Environment) => jsonOf(["blobs", "sweep", "--dry-run"], env)

const statusOf = async (env: Environment, id: string) => (await jsonOf(["job", "show", id], env)).status

const statuses = async (env: Environment) =>
  (await jsonOf(["job", "list"], env)).jobs.map(({ data, job_id, status }: Record<string, string>) => [
    job_id,
    status,
    data,
  ])

const checkOf = async (env: Environment, name: string) => {
  const { stdout } = await runInProcess(["doctor", "--json"], env)
  return JSON.parse(stdout).checks.find((check: { readonly name: string }) => check.name === name)
}

describe.each(installations)("a copy of a database on %s", (_name, open) => {
  it("does not start in any role, removes nothing and changes nothing, until it is adopted", async () => {
    await using original = await open()
    await original.use(seedEveryState)
    await use(original.env)
    await using copy = await copyOf(original)
    // With the files of the original, and with its own.
    for (const env of [{ ...copy.env, KILN_BLOBS: `file:${original.directory}` }, copy.env]) {
      const before = await statuses(env)
      for (const role of ["all", "api", "worker"])
        expect(await refusedStart(env, role)).toMatch(
          /^kiln: the .*is a copy, or was moved by copying: it was last used in .+, and is now in .+ No job is run, charged or deleted here.* kiln adopt --moved .* kiln adopt --restored .*\n$/,
        )
      for (const command of [
        ["blobs", "sweep", "--force"],
        ["retention", "run"],
        ["job", "purge-data", withFile],
        ["project", "erase", "one", "--confirm", "one"],
      ])
        expect(await refusalOf(command, env, 1)).toContain("is a copy, or was moved by copying")
      expect(await statuses(env)).toEqual(before)
      expect(await checkOf(env, "copy")).toMatchObject({
        status: "problem",
        summary: expect.stringContaining("is a copy"),
      })
    }
    expect(await checkOf(original.env, "copy")).toMatchObject({ status: "ok" })
    expect(await use(original.env)).toMatchObject({ removed: 0 })
  })

  it("whose place in the settings was exchanged with the original's: the copy is refused, the original works", async () => {
    await using original = await open()
    await original.use(seedEveryState)
    await use(original.env)
    await using copy = await copyOf(original)
    const { DATABASE_URL: ofOriginal } = original.env
    const { DATABASE_URL: ofCopy } = copy.env
    const exchanged =
      ofOriginal === undefined || ofCopy === undefined
        ? { KILN_DATA_DIR: copy.directory, KILN_BLOBS: `file:${original.directory}` }
        : { ...original.env, DATABASE_URL: ofCopy }
    expect(await refusedStart(exchanged, "all")).toContain("is a copy, or was moved by copying")
    expect(await use(original.env)).toMatchObject({ removed: 0 })
  })

  it("is adopted as restored: unfinished live jobs are canceled and not charged, and data whose files are gone is deleted", async () => {
    await using original = await open()
    await original.use(seedEveryState)
    const adoptedAfter = Date.now()
    const nextAt = adoptedAfter + 86_400_000
    const seedSchedules = Effect.all([
      writeSchedule("due", 5_000, { refusal: "queue_full" }),
      writeSchedule("later", nextAt),
      writeSchedule("paused", null),
    ])
    await original.use(seedSchedules)
    await use(original.env)
    await using copy = await copyOf(original)
    expect(await refusalOf(["adopt"], copy.env, 2)).toContain("either --moved or --restored")
    expect(await refusalOf(["adopt", "--moved", "--restored"], copy.env, 2)).toContain("either --moved or --restored")
    const charged = await jsonOf(["job", "show", charged6], copy.env)
    // Jobs 4 and 8 name files, and the copy has none.
    expect(await jsonOf(["adopt", "--restored"], copy.env)).toEqual({
      adopted: true,
      canceled_jobs: 1,
      erased_jobs: 2,
      skipped_schedules: 1,
      entries: [],
    })
    // The original may have submitted the jobs of ticks until now.
    const { schedules } = await jsonOf(["schedule", "list"], copy.env)
    expect(schedules).toMatchObject([
      { name: "due", refusal: null, next_at: expect.toSatisfy((at: string) => Date.parse(at) > adoptedAfter) },
      { name: "later", next_at: new Date(nextAt).toISOString().replace(/\.\d+/, "") },
      { name: "paused", next_at: null },
    ])
    expect(await jsonOf(["job", "show", running], copy.env)).toMatchObject({
      status: "failed",
      error_code: "canceled_by_operator",
      charge: null,
    })
    for (const id of [withFile, withUpload])
      expect(await jsonOf(["job", "show", id], copy.env)).toMatchObject({ status: "done", data: "deleted" })
    expect(await jsonOf(["job", "show", charged6], copy.env)).toEqual(charged)
    expect((await jsonOf(["audit", "list"], copy.env)).changes).toMatchObject([
      { action: "database.adopt", details: { as: "restored", canceled_jobs: 1, erased_jobs: 2, skipped_schedules: 1 } },
    ])
    expect(await jsonOf(["adopt", "--restored"], copy.env)).toMatchObject({ adopted: false })
    expect(await use(copy.env)).toMatchObject({ removed: 0 })
    expect(await checkOf(copy.env, "copy")).toMatchObject({ status: "ok" })
    expect(await statusOf(original.env, running)).toBe("processing")
  })

  it("is adopted as moved: its jobs and schedules continue", async () => {
    await using original = await open()
    await original.use(seedEveryState)
    await original.use(writeSchedule("due", 5_000))
    await use(original.env)
    await using copy = await copyOf(original)
    const before = await statuses(copy.env)
    expect(await jsonOf(["adopt", "--moved"], copy.env)).toMatchObject({
      adopted: true,
      canceled_jobs: 0,
      erased_jobs: 0,
      skipped_schedules: 0,
    })
    expect((await jsonOf(["schedule", "list"], copy.env)).schedules[0]).toMatchObject({
      next_at: "1970-01-01T00:00:05Z",
    })
    expect(await statuses(copy.env)).toEqual(before)
    expect(await use(copy.env)).toMatchObject({ removed: 0 })
  })

  it("is not adopted without the entry in the audit log", async () => {
    await using original = await open()
    await original.use(seedEveryState)
    await use(original.env)
    await using copy = await copyOf(original)
    const { DATABASE_URL: url } = copy.env
    if (url === undefined) {
      const { changeDatabase } = await import("../support/changeDatabase.ts")
      changeDatabase(
        copy.directory,
        "CREATE TRIGGER refuse_entries BEFORE INSERT ON kiln_audit BEGIN SELECT RAISE(ABORT, 'full'); END",
      )
    } else
      await withClient(url, async (client) => {
        await client.query("ALTER TABLE kiln.audit ADD CHECK (number < 0) NOT VALID")
      })
    expect((await runInProcess(["adopt", "--restored"], copy.env)).exit).toBe(1)
    expect(await refusedStart(copy.env, "all")).toContain("is a copy, or was moved by copying")
  })

  it("may be used with KILN_COPIES=allow, which does not make it the original", async () => {
    await using original = await open()
    await original.use(seedEveryState)
    await use(original.env)
    await using copy = await copyOf(original)
    // Its own files are elsewhere.
    const allowed = { ...copy.env, KILN_COPIES: "allow" }
    expect(await refusedStart(allowed, "all")).toContain("run kiln blobs claim")
    await jsonOf(["blobs", "claim", "--force"], allowed)
    expect(await use(allowed)).toMatchObject({ removed: 0 })
    expect(await checkOf({ ...copy.env, KILN_COPIES: "allow" }, "copy")).toMatchObject({
      status: "ok",
      summary: "not checked (KILN_COPIES=allow)",
    })
    expect(await refusedStart(copy.env, "all")).toContain("is a copy, or was moved by copying")
  })
})

describe("kiln adopt", () => {
  it("refuses --restored while most files are missing, and deletes their jobs' data only with --force", async () => {
    await using original = await sqliteInstallation()
    const { completionOf, newJob, noLimits, outputFile } = fixtures
    const { JobStore } = await import("@kiln/core/ports")
    const count = 101
    await original.use(seedEveryState)
    await original.use(
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const numbers = Array.from({ length: count }, (_, n) => 100 + n)
        yield* jobs.createJobs(numbers.map((n) => newJob(n)))
        const { claims } = yield* jobs.claimJobs({
          runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
          limits: noLimits,
          limit: 1_000,
          leaseDurationMs: 60_000,
          maxLostWorkers: 3,
        })
        yield* jobs.completeJobs(claims.map((claim, n) => completionOf(claim, { files: [outputFile(claim, 100 + n)] })))
      }),
    )
    await use(original.env)
    await using copy = await copyOf(original)
    const refused = await refusalOf(["adopt", "--restored"], copy.env, 1)
    expect(refused).toMatch(/jobs with data have files that are missing .* nothing was changed\n$/)
    expect(await statusOf(copy.env, running)).toBe("processing")
    expect(await jsonOf(["adopt", "--restored", "--force"], copy.env)).toMatchObject({
      adopted: true,
      canceled_jobs: 1,
    })
  })

  it("has nothing to do for an original, which may be renamed, moved and restarted", async () => {
    await using original = await sqliteInstallation()
    await original.use(seedEveryState)
    await use(original.env)
    expect(await jsonOf(["adopt", "--restored"], original.env)).toMatchObject({ adopted: false, canceled_jobs: 0 })
    const elsewhere = mkdtempSync(join(tmpdir(), "kiln-moved-"))
    renameSync(original.directory, join(elsewhere, "data"))
    try {
      const env = { KILN_DATA_DIR: join(elsewhere, "data") }
      expect(await use(env)).toMatchObject({ removed: 0 })
      expect(await checkOf(env, "copy")).toMatchObject({ status: "ok", summary: expect.stringContaining(elsewhere) })
      expect(await jsonOf(["adopt", "--moved"], env)).toMatchObject({ adopted: false })
    } finally {
      renameSync(join(elsewhere, "data"), original.directory)
      rmSync(elsewhere, { recursive: true })
    }
  })

  it("notices a backup that replaces the original, by any way of copying", async () => {
    await using original = await sqliteInstallation()
    await original.use(seedEveryState)
    await use(original.env)
    using backup = temporaryDirectory()
    copySqlite(original.directory, join(backup.path, "snapshot"))
    cpSync(original.directory, join(backup.path, "whole"), { recursive: true })
    for (const name of ["snapshot", "whole"]) {
      rmSync(original.directory, { recursive: true })
      mkdirSync(original.directory)
      cpSync(join(backup.path, name), original.directory, { recursive: true })
      expect(await refusedStart(original.env, "all")).toContain("is a copy, or was moved by copying")
    }
  })

  it("refuses --moved if another copy has used the files since", async () => {
    await using original = await sqliteInstallation()
    await original.use(seedEveryState)
    await use(original.env)
    await using copy = await copyOf(original)
    await jsonOf(["blobs", "sweep"], original.env)
    const shared = { ...copy.env, KILN_BLOBS: `file:${original.directory}` }
    expect(await refusalOf(["adopt", "--moved"], shared, 1)).toContain("run kiln adopt --restored")
    expect(await jsonOf(["adopt", "--restored"], shared)).toMatchObject({
      adopted: true,
      entries: [expect.any(String)],
    })
    expect(await refusedStart(original.env, "all")).toContain("is behind the blob store")
  })

  it("keeps the files that the original wrote for jobs that were unfinished in the copy", async () => {
    await using original = await sqliteInstallation()
    await original.use(seedEveryState)
    await use(original.env)
    await using copy = await copyOf(original)
    const shared = { ...copy.env, KILN_BLOBS: `file:${original.directory}`, KILN_ORPHAN_GRACE: "1s" }
    await jsonOf(["adopt", "--restored"], shared)
    // Under the token of job 7's claim, which was in progress in both.
    const file = join(original.directory, "blobs/jobs", running.slice(4), "1/audio.blob")
    mkdirSync(join(file, ".."), { recursive: true })
    writeFileSync(file, "written by the original")
    expect(await jsonOf(["blobs", "sweep", "--force"], shared)).toMatchObject({ blobs: 1, removed: 0, kept_unknown: 1 })
  })
})
