import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { PostgresStores } from "@kiln/adapter-postgres"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { withDelivery } from "@kiln/core/rules"
import {
  AuditLog,
  DeliveryStore,
  type JobDirectory,
  JobStore,
  ScheduleStore,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { Api } from "./support/Api.ts"
import { doctorProblems } from "./support/doctorProblems.ts"
import { changeDatabase } from "./support/changeDatabase.ts"
import { readEverything, seedEveryState } from "./support/copiedRecords.ts"
import { parent, readSchedulesAndFlows, seedSchedulesAndFlows, unique } from "./support/scheduledRecords.ts"
import { run, runJson, serve, temporaryDirectory } from "@kiln/service-lab"

const sqlite = (path: string) => SqliteStores.layer({ path })
const postgres = (url: string, schema = "kiln") =>
  PostgresStores.layer({ url, schema, poolSize: 2, notifications: false })

const seeded = async (directory: string): Promise<string> => {
  const path = join(directory, "kiln.db")
  await Effect.runPromise(Effect.provide(seedEveryState, sqlite(path)))
  return path
}

describe("kiln copy", () => {
  it("copies every record unchanged, and numbers continue after the highest", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const path = await seeded(data.path)
    // The record of a charged job may be gone while its charge stays, a blob may wait to be removed, and a job may have had another key.
    changeDatabase(
      data.path,
      `INSERT INTO kiln_purges (id, blob_prefix, recorded_at) VALUES (7, 'jobs/x', 1);
       DROP TRIGGER kiln_charges_of_live_done_jobs;
       INSERT INTO kiln_charges VALUES ('job_gone', 'p', 'k', 'speech_synthesis', 'usd', '0.10', '[]', 5);
       INSERT INTO kiln_replaced_keys (key_id, idempotency_key, fingerprint, job_seq)
       SELECT key_id, 'the key before', fingerprint, seq FROM kiln_jobs WHERE status = 'queued' LIMIT 1;`,
    )
    const before = await Effect.runPromise(Effect.provide(readEverything, sqlite(path)))
    expect(before.jobs.map((job) => job?.status)).not.toContain(undefined)

    const args = ["copy", "--from", `sqlite:${path}`, "--to", database.url]
    const dry = await runJson([...args, "--dry-run"])
    const tables = {
      switches: 2,
      paused_kinds: 0,
      project_limits: 0,
      prices: 2,
      projects: 1,
      api_keys: 2,
      key_secrets: 2,
      secrets: 1,
      uploads: 6,
      fairness: 1,
      lanes: 3,
      jobs: 11,
      checkpoints: 2,
      chunks: 2,
      files: 1,
      charges: 2,
      closed_ledger: 1,
      purges: 3,
      replaced_keys: 1,
      retention_rules: 0,
      blob_lineage: 1,
      served_kinds: 1,
      spend_caps: 0,
      spending: 0,
      schedules: 0,
      job_labels: 0,
      job_scopes: 0,
      attempts: 2,
      waits: 1,
      parked: 0,
      signals: 1,
      deliveries: 0,
      audit: 0,
      operator_tokens: 0,
    }
    expect(dry).toEqual({ dry_run: true, tables, source_moved_to: null })
    expect(existsSync(path)).toBe(true)
    const copied = await runJson(args)
    expect(copied).toEqual({ dry_run: false, tables, source_moved_to: `${path}.copied` })
    expect(readdirSync(data.path)).toEqual(["kiln.db.copied"])

    const after = await Effect.runPromise(Effect.provide(readEverything, postgres(database.url)))
    expect(after).toEqual(before)
    await Effect.runPromise(
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const created = yield* jobs.createJobs([20, 21].map((n) => fixtures.newJob(n)))
        expect(created).toMatchObject([{ _tag: "Created" }, { _tag: "Created" }])
        expect(yield* jobs.createJobs([fixtures.newJob(1)])).toMatchObject([{ _tag: "Replayed" }])
        yield* (yield* UploadStore).createUploads([fixtures.newUpload(20)])
        // The rules about rows hold again: finished jobs are final, and their data can be erased.
        const principal = fixtures.ownerOf(fixtures.newJob(4))
        expect(yield* jobs.eraseJobs([{ jobId: fixtures.jobId(4), principal }])).toMatchObject([{ _tag: "Erased" }])
        expect((yield* jobs.listPurges(10)).length).toBeGreaterThan(before.purges.length)
      }).pipe(Effect.provide(postgres(database.url))),
    )
    const doctor = await run(["doctor", "--json"], { KILN_DATA_DIR: data.path, DATABASE_URL: database.url })
    const checks: ReadonlyArray<{ readonly name: string; readonly status: string }> = JSON.parse(doctor.stdout).checks
    expect(Object.fromEntries(checks.map(({ name, status }) => [name, status]))).toMatchObject({
      migrations: "ok",
      schema: "ok",
      // Only records were generated here, without blobs.
      blobs: "problem",
    })
  })

  it("copies schedules, tags, unique jobs, children and deliveries, and they continue", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const path = join(data.path, "kiln.db")
    const seed = Effect.gen(function* () {
      yield* seedSchedulesAndFlows
      const change = { actor: "user a", origin: "host b", action: "key.revoke", subject: null, details: { n: 1 } }
      yield* (yield* AuditLog).append(change)
      yield* (yield* Switchboard).setSpendCap(fixtures.projectId(1), { currency: "usd", day: "1", month: null })
      return yield* readSchedulesAndFlows
    })
    const before = await Effect.runPromise(Effect.provide(seed, sqlite(path)))
    expect(before.children).toHaveLength(2)
    const { tables } = await runJson(["copy", "--from", `sqlite:${path}`, "--to", database.url])
    expect(tables).toMatchObject({
      schedules: 3,
      job_labels: 10,
      job_scopes: 1,
      deliveries: 2,
      audit: 1,
      spend_caps: 1,
    })

    const onCopy = <A>(work: Effect.Effect<A, unknown, JobStore | JobDirectory | DeliveryStore | ScheduleStore>) =>
      Effect.runPromise(Effect.provide(work, postgres(database.url)))
    expect(await onCopy(readSchedulesAndFlows)).toEqual(before)
    const env = { KILN_DATA_DIR: data.path, DATABASE_URL: database.url }
    expect((await runJson(["audit", "list"], env)).changes).toMatchObject([{ action: "key.revoke", details: { n: 1 } }])
    await onCopy(
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const deliveries = yield* DeliveryStore
        expect(yield* jobs.createJobs([fixtures.newJob(90, { unique })])).toMatchObject([
          { _tag: "Duplicate", job: { id: parent.jobId } },
        ])
        const claimed = yield* deliveries.claimDeliveries({
          kinds: ["speech_synthesis"],
          limit: 10,
          leaseDurationMs: 1,
        })
        expect(claimed).toEqual([{ jobId: fixtures.jobId(83), kind: "speech_synthesis", token: 1, attempt: 1 }])
        const [{ name, version } = { name: "", version: 0 }] = (yield* (yield* ScheduleStore).nextSchedules(1))
          .schedules
        expect(name).toBe("nightly")
        expect(yield* (yield* ScheduleStore).writeSchedule(name, version, null)).toBe(true)
        // The rule that makes deliveries holds again.
        yield* jobs.createJobs([fixtures.newJob(91, { metadata: withDelivery({}) })])
        yield* jobs.cancelJobs([fixtures.jobId(91)])
        expect(yield* deliveries.countDeliveries).toMatchObject([{ count: 3, repeated: 1 }])
      }),
    )
  })

  it("lets an installation continue: its keys, jobs, files and replays", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const env = { KILN_DATA_DIR: data.path, KILN_LEASE_SECONDS: "2" }
    let key = ""
    let done = ""
    let queued = ""
    {
      await using server = await serve(env)
      key = server.listening.first_key?.key ?? ""
      const api = new Api(server.listening.url, key)
      done = (await (await api.speak("done before", "repeat-me")).json()).id
      expect((await api.finished(done)).status).toBe("done")
      // Its worker is killed in the middle.
      queued = await api.createSpeech("sandbox:delay:1")
      await expect.poll(async () => (await api.job(queued)).status, { timeout: 10_000 }).toBe("processing")
      await server.crash()
    }
    const path = join(data.path, "kiln.db")
    const { exit, stderr, stdout } = await run(["copy", "--from", `sqlite:${path}`, "--to", database.url])
    expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" })
    expect(stdout).toMatch(/^jobs +2$/m)
    expect(stdout).toMatch(/The blobs stay where they are/)

    const moved = { ...env, DATABASE_URL: database.url }
    await using server = await serve(moved)
    expect(server.listening.first_key).toBe(null)
    const api = new Api(server.listening.url, key)
    const repeated = await api.speak("done before", "repeat-me")
    expect([repeated.headers.get("idempotency-replayed"), (await repeated.json()).id]).toEqual(["true", done])
    expect((await fetch((await api.job(done)).output?.audio_url ?? "")).status).toBe(200)
    expect((await api.finished(queued)).status).toBe("done")
    expect(doctorProblems((await run(["doctor", "--json"], moved)).stdout)).toEqual([])

    // A server started without DATABASE_URL would create another installation on these blobs.
    const forgotten = await run(["serve"], { ...env, PORT: "0" })
    expect(forgotten).toMatchObject({ exit: 1, stdout: "", stderr: expect.stringContaining("another installation") })
  })

  it("copies all or nothing", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const path = await seeded(data.path)
    // Of the last table, when all others are written.
    changeDatabase(data.path, "ALTER TABLE kiln_purges ADD COLUMN extra TEXT")
    const { exit, stderr, stdout } = await run(["copy", "--from", `sqlite:${path}`, "--to", database.url, "--json"])
    expect({ exit, stdout }).toEqual({ exit: 1, stdout: "" })
    expect(stderr).toContain("extra")
    expect(existsSync(path)).toBe(true)
    changeDatabase(data.path, "ALTER TABLE kiln_purges DROP COLUMN extra")
    expect(await runJson(["copy", "--from", `sqlite:${path}`, "--to", database.url])).toMatchObject({
      tables: { jobs: 11 },
    })
  })

  it("refuses a target with data and leaves it unchanged; another schema of it may be empty", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const path = await seeded(data.path)
    await runJson(["project", "create", "theirs"], { DATABASE_URL: database.url })
    const args = ["copy", "--from", `sqlite:${path}`, "--to", database.url]
    const refused = await run([...args, "--json"])
    expect({ exit: refused.exit, stdout: refused.stdout }).toEqual({ exit: 1, stdout: "" })
    expect(refused.stderr).toMatch(/is not empty: its schema kiln has rows in audit, projects;/)
    expect(existsSync(path)).toBe(true)
    const { projects } = await runJson(["project", "list"], { DATABASE_URL: database.url })
    expect(projects).toHaveLength(1)

    expect(await runJson([...args, "--schema", "mine"])).toMatchObject({ tables: { jobs: 11 } })
    const { jobs } = await Effect.runPromise(Effect.provide(readEverything, postgres(database.url, "mine")))
    expect(jobs).toHaveLength(11)
  })

  it("refuses a source that is in use, empty, missing or of a newer version", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const path = join(data.path, "kiln.db")
    const copy = async () => {
      const ended = await run(["copy", "--from", `sqlite:${path}`, "--to", database.url])
      expect({ exit: ended.exit, stdout: ended.stdout }).toEqual({ exit: 1, stdout: "" })
      return ended.stderr
    }
    expect(await copy()).toContain(`there is no database ${path}`)
    {
      await using server = await serve({ KILN_DATA_DIR: data.path, KILN_ROLE: "api" })
      expect(await copy()).toContain("is open in another process: stop every kiln process")
      expect((await fetch(`${server.listening.url}/readyz`)).status).toBe(200)
    }
    changeDatabase(data.path, "DELETE FROM kiln_migrations")
    expect(await copy()).toContain("has no kiln schema")
    changeDatabase(
      data.path,
      "INSERT INTO kiln_migrations (name, applied_at) VALUES ('0001Initial', 1), ('0002Digests', 1), ('9999Newer', 1)",
    )
    expect(await copy()).toContain("9999Newer")
    expect(existsSync(path)).toBe(true)
  })

  it.each([
    [["--from", "kiln.db", "--to", "postgres://h/d"], "--from must be sqlite:"],
    [["--from", "sqlite:", "--to", "postgres://h/d"], "--from must be sqlite:"],
    [["--from", "sqlite:a", "--to", "sqlite:b"], "--to must be a URL like postgres://"],
    [["--from", "sqlite:a", "--to", "postgres://h/d", "--schema", "A"], "--schema must be"],
    [["--from", "sqlite:a"], "to"],
  ])("misused as %j exits with 2", async (args, message) => {
    const { exit, stderr, stdout } = await run(["copy", ...args, "--json"])
    expect({ exit, stdout }).toEqual({ exit: 2, stdout: "" })
    expect(stderr).toContain(message)
  })
})
