import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Stream } from "effect"
import { describe, expect, it } from "vitest"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { BlobStore, type ProviderStanding, Switchboard } from "@kiln/core/ports"
import { Api } from "./support/Api.ts"
import { keyOfBlobFile } from "./support/blobFiles.ts"
import { changeDatabase } from "./support/changeDatabase.ts"
import { run, serve, temporaryDirectory } from "@kiln/service-lab"

type Environment = Readonly<Record<string, string>>

interface Diagnosis {
  readonly ok: boolean
  readonly checks: ReadonlyArray<{
    readonly name: string
    readonly status: string
    readonly findings: ReadonlyArray<Readonly<Record<string, string>>>
  }>
}

/** The output of the doctor, which must agree with its exit code. */
const diagnose = async (env: Environment) => {
  const { exit, stdout } = await run(["doctor", "--json"], env)
  const diagnosis = JSON.parse(stdout) as Diagnosis
  expect(exit).toBe(diagnosis.ok ? 0 : 1)
  // The disk of the machine that runs the test is not the test's.
  const {
    disk: _,
    filesystem: __,
    ...statuses
  } = Object.fromEntries(diagnosis.checks.map(({ name, status }) => [name, status]))
  const findings = (name: string) => diagnosis.checks.find((check) => check.name === name)?.findings
  return { ok: diagnosis.ok, statuses, findings }
}

const well = {
  settings: "ok",
  permissions: "ok",
  address: "ok",
  "public-url": "skipped",
  database: "ok",
  migrations: "ok",
  schema: "ok",
  integrity: "ok",
  upkeep: "ok",
  purges: "ok",
  copy: "ok",
  clock: "ok",
  backups: "ok",
  keys: "ok",
  "signing-keys": "ok",
  live: "skipped",
  queue: "ok",
  schedules: "ok",
  deliveries: "ok",
  // No worker runs that serves live jobs.
  providers: "skipped",
  // A killed worker is forgotten within 30 seconds.
  workers: expect.stringMatching(/^(ok|skipped)$/),
  installation: "ok",
  blobs: "ok",
  orphans: "ok",
}

/** Starts a server on an empty directory and has it make some files and then stops it. */
const withFiles = async (env: Environment, count: number): Promise<void> => {
  await using server = await serve(env)
  const { first_key: key, url } = server.listening
  const api = new Api(url, key?.key ?? "")
  const ids = await Promise.all([...Array(count).keys()].map((n) => api.createSpeech(`text ${n}`)))
  for (const id of ids) expect((await api.finished(id)).status).toBe("done")
}

const blobsOf = (dataDirectory: string): ReadonlyArray<string> =>
  readdirSync(join(dataDirectory, "blobs/jobs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".blob"))
    .map((name) => join(dataDirectory, "blobs/jobs", name))
    .sort()

const keyOf = (path: string) => keyOfBlobFile(path.slice(path.indexOf("/jobs/") + 1))

/** Another intact blob under the same key, as from a backup of another day. */
const replaceBlob = (directory: string, key: string) =>
  Effect.gen(function* () {
    const blobs = yield* BlobStore
    yield* blobs.remove(key)
    yield* blobs.put(key, Stream.succeed(Uint8Array.of(1, 2, 3)), { maxBytes: 3 })
  }).pipe(Effect.provide(FileBlobStore.layer({ directory })), Effect.runPromise)

describe("kiln doctor", () => {
  it("finds no problems in a used installation, even while its server runs", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using server = await serve(env)
    const api = new Api(server.listening.url, server.listening.first_key?.key ?? "")
    const id = await api.createSpeech("hello")
    expect((await api.finished(id)).status).toBe("done")
    expect(await diagnose(env)).toMatchObject({ ok: true, statuses: well })
    const { exit, stderr, stdout } = await run(["doctor"], env)
    expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" })
    expect(stdout).toMatch(/^ok {5}blobs +1 file verified$/m)
    expect((await fetch(`${server.listening.url}/readyz`)).status).toBe(200)
  })

  it("names exactly the files whose blob is missing, damaged, truncated or replaced", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await withFiles(env, 5)
    const [missing, flipped, short, swapped] = blobsOf(data.path)
    if (!missing || !flipped || !short || !swapped) throw new Error("five files were made")
    const bytes = readFileSync(flipped)
    bytes[100] = (bytes[100] ?? 0) ^ 1
    writeFileSync(flipped, bytes)
    await replaceBlob(data.path, keyOf(swapped))
    truncateSync(short, 1_000)
    rmSync(missing)

    const { findings, ok, statuses } = await diagnose(env)
    expect({ ok, statuses }).toEqual({ ok: false, statuses: { ...well, blobs: "problem" } })
    const found = findings("blobs") ?? []
    expect(new Map(found.map((finding) => [finding["blob_key"], finding["problem"]]))).toEqual(
      new Map([
        [keyOf(missing), "missing"],
        [keyOf(flipped), "damaged"],
        [keyOf(short), "damaged"],
        [keyOf(swapped), "different"],
      ]),
    )
    for (const { file_id: id } of found) expect(id).toMatch(/^fil_[0-9a-z]{26}$/)
    const { exit, stderr, stdout } = await run(["doctor"], env)
    expect({ exit, stderr }).toEqual({ exit: 1, stderr: "kiln: problems found: blobs\n" })
    expect(stdout).toMatch(/^WRONG {2}blobs +4 of 5 files cannot be served/m)
    for (const { file_id: id } of found) expect(stdout).toContain(id)
  })

  it("reports schema drift, pending migrations, damage and overdue purges", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await withFiles(env, 0)
    changeDatabase(
      data.path,
      `DROP INDEX kiln_jobs_ready; CREATE TABLE mine (id INTEGER PRIMARY KEY);
       PRAGMA foreign_keys = OFF; INSERT INTO kiln_key_secrets VALUES ('hash', 'key_gone', 1, NULL);
       INSERT INTO kiln_purges (blob_prefix, recorded_at) VALUES ('jobs/a', 1), ('jobs/b', 1);`,
    )
    const sick = await diagnose(env)
    expect(sick).toMatchObject({
      ok: false,
      statuses: { ...well, schema: "problem", integrity: "problem", purges: "problem" },
    })
    expect(sick.findings("schema")).toEqual([
      {
        message: "index kiln_jobs_ready is missing",
        remedy: expect.stringMatching(/undo what was changed by hand/),
        object: "index kiln_jobs_ready",
        problem: "missing",
      },
    ])

    changeDatabase(data.path, "UPDATE kiln_migrations SET name = 'x' || name")
    const behind = await diagnose(env)
    expect(behind.statuses["migrations"]).toBe("problem")
    const pending = behind.findings("migrations")?.map(({ migration }) => String(migration)) ?? []
    expect(pending).toContain("0001Initial")

    changeDatabase(
      data.path,
      "UPDATE kiln_migrations SET name = substr(name, 2); INSERT INTO kiln_migrations (name, applied_at) VALUES ('9999Newer', 1)",
    )
    expect((await diagnose(env)).statuses["migrations"]).toBe("warning")
  })

  it("reports invalid settings and modules that cannot be loaded, without stopping", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const broken = await diagnose({ ...env, PORT: "x", KILN_LEASE_SECONDS: "1" })
    expect(broken).toMatchObject({ ok: false, statuses: { settings: "problem", database: "skipped" } })
    expect(broken.findings("settings")?.map(({ setting }) => setting)).toEqual(["PORT", "KILN_LEASE_SECONDS"])

    await withFiles(env, 0)
    const missing = await diagnose({ ...env, KILN_CONFIG: join(data.path, "none.ts") })
    expect(missing).toMatchObject({ ok: false, statuses: { ...well, settings: "problem" } })
    const blobs = await diagnose({ ...env, KILN_BLOBS: join(data.path, "none.ts") })
    expect(blobs.statuses).toMatchObject({ database: "ok", blobs: "problem" })
    expect(await diagnose({ ...env, KILN_DATADIR: "x" })).toMatchObject({
      ok: true,
      statuses: { ...well, settings: "warning" },
    })
  })

  it("creates no missing database, and reports it", async () => {
    using data = temporaryDirectory()
    const directory = join(data.path, "data")
    const { findings, ok, statuses } = await diagnose({ KILN_DATA_DIR: directory })
    expect({ ok, statuses }).toMatchObject({ ok: false, statuses: { settings: "ok", database: "problem" } })
    expect(findings("database")).toEqual([])
    expect(readdirSync(data.path)).toEqual([])
  })

  it("reports which live providers are paused and why, as published by workers", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await withFiles(env, 0)
    const publish = (standing: Pick<ProviderStanding, "status" | "reason">) =>
      Effect.gen(function* () {
        const providers = [
          { provider: "image", status: "ready", reason: null, since: 0 } as const,
          { provider: "speech", since: 1_000, ...standing },
        ]
        yield* (yield* Switchboard).publishWorker({ workerId: "w", liveKinds: [], providers, ttlMs: 60_000 })
      }).pipe(Effect.provide(SqliteStores.layer({ path: join(data.path, "kiln.db") })), Effect.runPromise)

    expect((await diagnose(env)).statuses).toMatchObject({ providers: "skipped" })
    await publish({ status: "ready", reason: null })
    expect(await diagnose(env)).toMatchObject({ ok: true, statuses: { providers: "ok" } })
    await publish({ status: "paused", reason: "failing" })
    expect(await diagnose(env)).toMatchObject({ ok: true, statuses: { providers: "warning" } })
    for (const reason of ["quota", "configuration"] as const) {
      await publish({ status: "paused", reason })
      const { findings, ok, statuses } = await diagnose(env)
      expect({ ok, statuses }).toMatchObject({ ok: false, statuses: { ...well, providers: "problem" } })
      expect(findings("providers")).toMatchObject([
        { provider: "speech", reason, paused_since: "1970-01-01T00:00:01.000Z" },
      ])
    }
    expect((await run(["doctor"], env)).stdout).toContain("speech is paused in 1 of 1 worker: ")
  })

  it("reports a blob store of another installation, and does not touch it", async () => {
    using mine = temporaryDirectory()
    using other = temporaryDirectory()
    await withFiles({ KILN_DATA_DIR: mine.path }, 1)
    await withFiles({ KILN_DATA_DIR: other.path }, 0)
    const found = await diagnose({ KILN_DATA_DIR: mine.path, KILN_BLOBS: `file:${other.path}` })
    const { orphans: _, ...others } = well
    expect(found).toMatchObject({ ok: false, statuses: { ...others, installation: "problem", blobs: "skipped" } })
  })
})
