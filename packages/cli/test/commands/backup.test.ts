import {
  appendFileSync,
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { inspectSqlite } from "@kiln/adapter-sqlite"
import { BlobStore } from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { describe, expect, it, vi } from "vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { takeBackup } from "../../src/backup/takeBackup.ts"
import { blobFile, keyOfBlobFile } from "../support/blobFiles.ts"
import { copySqlite } from "../support/copies.ts"
import { engineOn, speak } from "../support/liveFiles.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

/** A data directory with two finished jobs, and an empty directory for backups. */
const arrange = async () => {
  const data = temporaryDirectory()
  const target = temporaryDirectory()
  const engine = await engineOn(data.path)
  const ids = [await speak(engine, "one"), await speak(engine, "two")]
  await engine.stop()
  // Marks the files as those of the records, as a server does.
  await jsonOf(["blobs", "sweep"], { KILN_DATA_DIR: data.path })
  return {
    data: data.path,
    env: { KILN_DATA_DIR: data.path },
    directory: join(target.path, "backups"),
    scratch: target.path,
    ids,
    [Symbol.dispose]: () => {
      data[Symbol.dispose]()
      target[Symbol.dispose]()
    },
  }
}

const nextSecond = () => new Promise((resolve) => setTimeout(resolve, 1_100))

const backUp = (directory: string, env: Readonly<Record<string, string>>, ...more: ReadonlyArray<string>) =>
  jsonOf(["backup", directory, ...more], env)

const check = async (directory: string, ...more: ReadonlyArray<string>) => {
  const { exit, stderr, stdout } = await runInProcess(["restore", directory, "--check", "--json", ...more])
  return { exit, stderr, report: stdout === "" ? undefined : JSON.parse(stdout) }
}

const blobsIn = (directory: string): ReadonlyArray<string> =>
  globSync("blobs/{jobs,uploads}/**/*.blob", { cwd: directory }).toSorted()

describe("kiln backup", () => {
  it("records the backup, where the doctor finds its age", async () => {
    using lab = await arrange()
    const { backup } = await backUp(lab.directory, lab.env)
    const { changes } = await jsonOf(["audit", "list"], lab.env)
    expect(changes).toContainEqual(
      expect.objectContaining({
        action: "backup.create",
        subject: lab.directory,
        details: expect.objectContaining({ backup, files: 2 }),
      }),
    )
    const { stdout } = await runInProcess(["doctor", "--json"], lab.env)
    expect(JSON.parse(stdout).checks).toContainEqual(
      expect.objectContaining({ name: "backups", status: "ok", summary: expect.stringContaining(lab.directory) }),
    )
  })

  it("copies the database and all files while an engine works, privately, and afterwards only new files", async () => {
    using lab = await arrange()
    const engine = await engineOn(lab.data)
    const first = await backUp(lab.directory, lab.env)
    expect(first).toMatchObject({
      counts: { jobs: 2, files: 2, charges: 0 },
      files: 2,
      copied_files: 2,
      unusable_files: [],
      removed_backups: [],
    })
    await speak(engine, "three")
    const second = await backUp(lab.directory, lab.env)
    expect(second).toMatchObject({ files: 3, copied_files: 1, counts: { jobs: 3 } })
    expect(second.backup > first.backup).toBe(true)
    await engine.stop()
    expect(blobsIn(lab.directory)).toEqual(blobsIn(lab.data))
    for (const name of readdirSync(lab.directory, { recursive: true, encoding: "utf8" })) {
      const { mode } = statSync(join(lab.directory, name))
      expect([name, (mode & 0o777).toString(8)]).toEqual([
        name,
        statSync(join(lab.directory, name)).isDirectory() ? "700" : "600",
      ])
    }
    const manifest = JSON.parse(
      readFileSync(join(lab.directory, "generations", second.backup, "manifest.json"), "utf8"),
    )
    expect(manifest).toMatchObject({
      format: 1,
      kiln: expect.any(String),
      installation_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      origin: expect.stringMatching(/^[0-9a-f]{64}$/),
      created_at: second.created_at,
      database: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/), generation: expect.any(Number) },
      blobs: { count: 3, unusable: [] },
    })
    for (const name of [first.backup, second.backup])
      expect(await check(lab.directory, "--backup", name)).toMatchObject({
        exit: 0,
        report: { ok: true, backup: name },
      })
  })

  it("keeps the newest backups, and removes files that only the removed ones need", async () => {
    using lab = await arrange()
    const [one = "", two = ""] = lab.ids
    const first = await backUp(lab.directory, lab.env, "--keep", "2")
    const engine = await engineOn(lab.data)
    await engine.eraseData(one)
    await engine.stop()
    const second = await backUp(lab.directory, lab.env, "--keep", "2")
    expect(second).toMatchObject({ files: 1, copied_files: 0, removed_backups: [] })
    expect(blobsIn(lab.directory)).toHaveLength(2)
    const third = await backUp(lab.directory, lab.env, "--keep", "2")
    expect(third.removed_backups).toEqual([first.backup])
    expect(blobsIn(lab.directory)).toEqual([blobFile("", `jobs/${two.slice(4)}/1/audio`)])
    expect(readdirSync(join(lab.directory, "generations")).toSorted()).toEqual([second.backup, third.backup])
    expect(await check(lab.directory)).toMatchObject({ exit: 0 })
  })

  it("names no file that was deleted while it ran", { timeout: 120_000 }, async () => {
    using lab = await arrange()
    const engine = await engineOn(lab.data)
    const churning = new AbortController()
    // Files come and go all the time.
    const churn = (async () => {
      for (let n = 0; !churning.signal.aborted; n++) {
        const id = await speak(engine, `churn ${n}`)
        if (n % 2 === 0) await engine.eraseData(id)
      }
    })()
    for (let n = 0; n < 3; n++) {
      const { backup } = await backUp(lab.directory, lab.env)
      expect(await check(lab.directory, "--backup", backup)).toMatchObject({ exit: 0 })
    }
    churning.abort()
    await churn
    await engine.stop()
  })

  it("takes the snapshot again if a file that it names is deleted before its copy", async () => {
    using lab = await arrange()
    const engine = await engineOn(lab.data)
    const place = { _tag: "Sqlite", path: join(lab.data, "kiln.db") } as const
    let erasure: Promise<void> | undefined
    const taken = await Effect.runPromise(
      Effect.gen(function* () {
        const records = yield* inspectSqlite({ path: place.path })
        if (records === undefined) throw new Error("no database")
        const blobs = yield* BlobStore
        const open: typeof blobs.open = (key, range) =>
          // Every copy waits for it, since files are copied side by side.
          Effect.andThen(
            Effect.promise(() => (erasure ??= engine.eraseData(lab.ids[0] ?? ""))),
            blobs.open(key, range),
          )
        // Nothing is copied before the snapshot.
        const late = { ...records, namedBlobs: Stream.empty }
        const source = { place, records: late, blobs: { ...blobs, open }, version: "test", ownDirectories: [lab.data] }
        return yield* takeBackup(source, lab.directory, 1)
      }).pipe(Effect.provide(FileBlobStore.layer({ directory: lab.data })), Effect.scoped),
    )
    await engine.stop()
    expect(taken.blobs).toMatchObject({ failed: [], listed: [expect.anything()] })
    expect(await check(lab.directory)).toMatchObject({ exit: 0, report: { files: 1 } })
  })

  it("says which files are unusable in the installation itself, and fails", async () => {
    using lab = await arrange()
    const { backup } = await backUp(lab.directory, lab.env)
    const [lost = "", damaged = ""] = blobsIn(lab.data)
    for (const pool of [lab.data, lab.directory]) rmSync(join(pool, lost))
    for (const pool of [lab.data, lab.directory]) appendFileSync(join(pool, damaged), "x")
    const { exit, stderr, stdout } = await runInProcess(["backup", lab.directory, "--keep", "1", "--json"], lab.env)
    expect(exit).toBe(1)
    // An older backup may have what this one lacks.
    expect(JSON.parse(stdout).removed_backups).toEqual([])
    expect(readdirSync(join(lab.directory, "generations"))).toContain(backup)
    expect(stderr).toContain("complete except for 2 files that are missing or damaged in the installation itself")
    const keys = [lost, damaged].map((path) => keyOfBlobFile(path.replace(/^blobs\//, "")))
    expect(JSON.parse(stdout).unusable_files.toSorted()).toEqual(keys)
    const checked = await check(lab.directory)
    expect(checked).toMatchObject({ exit: 1, stderr: expect.stringContaining("cannot be relied on: blobs") })
  })

  it("makes no backup of a blob store that is not mounted", async () => {
    using lab = await arrange()
    await backUp(lab.directory, lab.env, "--keep", "1")
    const before = blobsIn(lab.directory)
    const engine = await engineOn(lab.data)
    await engine.stop()
    await jsonOf(["blobs", "sweep"], lab.env)
    renameSync(join(lab.data, "blobs"), join(lab.data, "hidden"))
    expect(await refusalOf(["backup", lab.directory, "--keep", "1"], lab.env, 1)).toContain("has no marker")
    expect(blobsIn(lab.directory)).toEqual(before)
    expect(readdirSync(join(lab.directory, "generations"))).toHaveLength(1)
  })

  it("refuses what it would spoil: a copy, another installation's backups, two backups at once, Postgres", async () => {
    using lab = await arrange()
    using other = await arrange()
    await using database = await freshDatabase()
    await backUp(lab.directory, lab.env)
    expect(await refusalOf(["backup", lab.directory], other.env, 1)).toContain(
      "contains backups of another installation",
    )
    copySqlite(lab.data, join(lab.scratch, "copy"))
    expect(await refusalOf(["backup", lab.directory], { KILN_DATA_DIR: join(lab.scratch, "copy") }, 1)).toContain(
      "is a copy, or was moved by copying",
    )
    expect(await refusalOf(["backup", lab.directory, "--keep", "0"], lab.env, 2)).toContain("--keep must be")
    expect(await refusalOf(["backup", lab.directory], { ...lab.env, DATABASE_URL: database.url }, 2)).toContain(
      "docs/guides/backup.md",
    )
    expect(await refusalOf(["backup", lab.directory], { KILN_DATA_DIR: join(lab.scratch, "none") }, 1)).toContain(
      "there is no database",
    )
    const both = await Promise.all([0, 1].map(() => runInProcess(["backup", lab.directory, "--json"], lab.env)))
    expect(both.map(({ exit }) => exit).toSorted((a, b) => a - b)).toEqual([0, 1])
    expect(both.map(({ stderr }) => stderr).join("")).toContain("another kiln backup is writing to")
  })
})

describe("kiln restore --check", () => {
  it("finds every kind of damage, and says how old the backup is", async () => {
    using lab = await arrange()
    const { backup } = await backUp(lab.directory, lab.env)
    const whole = await check(lab.directory, "--max-age", "1h")
    expect(whole).toMatchObject({
      exit: 0,
      stderr: "",
      report: { ok: true, backup, age_seconds: expect.any(Number), counts: { jobs: 2 }, files: 2 },
    })
    const people = await runInProcess(["restore", lab.directory, "--check"])
    expect(people.stdout).toMatch(
      /^ok {5}age +\S+ is 0\.\d hours old\n(ok .*\n)+\n\S+: 0 projects, .* 2 jobs, .*2 files, \d+ bytes\n$/,
    )
    await nextSecond()
    expect(await check(lab.directory, "--max-age", "1s")).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("cannot be relied on: age"),
    })
    const generation = join(lab.directory, "generations", backup)
    const [blob = ""] = blobsIn(lab.directory)
    const flip = (path: string, at: number) => {
      const bytes = readFileSync(path)
      bytes[at] = (bytes[at] ?? 0) ^ 1
      chmodSync(path, 0o600)
      writeFileSync(path, bytes)
    }
    const damages: ReadonlyArray<readonly [path: string, damage: (path: string) => void, finding: string]> = [
      [join(lab.directory, blob), (path) => flip(path, 100), "cannot be relied on: blobs"],
      [join(lab.directory, blob), (path) => truncateSync(path, 50), "cannot be relied on: blobs"],
      [join(lab.directory, blob), (path) => rmSync(path), "cannot be relied on: blobs"],
      [join(generation, "kiln.db"), (path) => flip(path, 5_000), "cannot be relied on: checksums"],
      [join(generation, "kiln.db"), (path) => rmSync(path), "cannot be relied on: checksums"],
      [join(generation, "blobs.txt"), (path) => truncateSync(path, 10), "cannot be relied on: checksums"],
      [join(generation, "manifest.json"), (path) => truncateSync(path, 10), "manifest of"],
    ]
    for (const [path, damage, finding] of damages) {
      const before = readFileSync(path)
      damage(path)
      const { exit, stderr } = await check(lab.directory)
      expect([path, exit, stderr]).toEqual([path, 1, expect.stringContaining(finding)])
      writeFileSync(path, before, { mode: 0o600 })
    }
    expect(await check(lab.directory)).toMatchObject({ exit: 0 })

    // A place without room is no reason to distrust the backup.
    vi.stubEnv("TMPDIR", join(lab.scratch, "missing"))
    const { exit, report } = await check(lab.directory)
    vi.unstubAllEnvs()
    expect(exit).toBe(1)
    expect(report.checks.at(-1)).toMatchObject({
      name: "opening",
      summary: expect.stringMatching(/^not checked, because the database cannot be copied to .*missing: ENOENT/),
      remedy: expect.stringMatching(/^set TMPDIR to a directory with room for \d/),
    })
  })

  it("finds damage that the checksums were made of", async () => {
    using lab = await arrange()
    const { backup } = await backUp(lab.directory, lab.env)
    const generation = join(lab.directory, "generations", backup)
    const { DatabaseSync } = await import("node:sqlite")
    const { createHash } = await import("node:crypto")
    {
      using database = new DatabaseSync(join(generation, "kiln.db"), { enableForeignKeyConstraints: false })
      database.exec("DELETE FROM kiln_lanes")
    }
    const path = join(generation, "manifest.json")
    const manifest = JSON.parse(readFileSync(path, "utf8"))
    manifest.database.sha256 = createHash("sha256")
      .update(readFileSync(join(generation, "kiln.db")))
      .digest("hex")
    writeFileSync(path, JSON.stringify(manifest))
    const { exit, report } = await check(lab.directory)
    expect(exit).toBe(1)
    expect(report.checks).toContainEqual(
      expect.objectContaining({
        name: "integrity",
        status: "problem",
        findings: [expect.anything(), expect.anything()],
      }),
    )
  })

  it("says that there is no backup, and rejects wrong options", async () => {
    using lab = await arrange()
    expect(await refusalOf(["restore", lab.directory, "--check"], {}, 1)).toContain("contains no complete backup")
    // A directory that cannot be read may contain backups.
    const file = join(lab.scratch, "file")
    writeFileSync(file, "")
    expect(await refusalOf(["restore", file, "--check"], {}, 1)).toContain(`cannot use the backup ${file}: ENOTDIR`)
    mkdirSync(join(lab.directory, "generations/20260101T000000000Z.partial"), { recursive: true })
    expect(await refusalOf(["restore", lab.directory, "--check"], {}, 1)).toContain("contains no complete backup")
    await backUp(lab.directory, lab.env)
    expect(await refusalOf(["restore", lab.directory, "--check", "--backup", "x"], {}, 1)).toContain(
      "no backup named x",
    )
    expect(await refusalOf(["restore", lab.directory], {}, 2)).toContain("either --check or --to")
    expect(await refusalOf(["restore", lab.directory, "--check", "--to", "x"], {}, 2)).toContain(
      "either --check or --to",
    )
    expect(await refusalOf(["restore", lab.directory, "--to", "x", "--max-age", "1h"], {}, 2)).toContain(
      "--max-age belongs",
    )
    expect(await refusalOf(["restore", lab.directory, "--check", "--max-age", "soon"], {}, 2)).toContain("--max-age")
  })
})

describe("kiln restore --to", () => {
  it("restores records and files, on which kiln starts once they are adopted", async () => {
    using lab = await arrange()
    await backUp(lab.directory, lab.env)
    const to = join(lab.scratch, "restored")
    const restored = await jsonOf(["restore", lab.directory, "--to", to], {})
    expect(restored).toMatchObject({ data_directory: to, files: 2, missing_files: [], erased_jobs: 0 })
    expect(readdirSync(to).toSorted()).toEqual(["blobs", "kiln.db", "tmp"])
    expect((statSync(join(to, "kiln.db")).mode & 0o777).toString(8)).toBe("600")
    expect(blobsIn(to)).toEqual(blobsIn(lab.data))
    const env = { KILN_DATA_DIR: to }
    expect(await refusalOf(["blobs", "sweep"], env, 1)).toContain("is a copy, or was moved by copying")
    await expect(engineOn(to)).rejects.toThrow("are a copy")
    expect(await jsonOf(["adopt", "--restored"], env)).toMatchObject({ adopted: true, erased_jobs: 0 })
    const engine = await engineOn(to)
    for (const id of lab.ids) {
      const job = await engine.get(id)
      if (job.status !== "done" || job.kind !== "speech_synthesis" || job.output === null) throw new Error("no output")
      expect((await engine.readFile(job.output.audio)).length).toBeGreaterThan(1_000)
    }
    await engine.stop()
    // Nothing is left to remove, and nothing was lost.
    expect(await jsonOf(["blobs", "sweep"], env)).toMatchObject({ orphans: 0, removed: 0 })
    expect((await runInProcess(["doctor"], env)).stdout).toContain("2 files verified")
  })

  it("does not overwrite anything, and repeats a restore that was killed", async () => {
    using lab = await arrange()
    await backUp(lab.directory, lab.env)
    const to = join(lab.scratch, "restored")
    expect(await refusalOf(["restore", lab.directory, "--to", lab.data], {}, 1)).toContain("is not empty")
    await jsonOf(["restore", lab.directory, "--to", to], {})
    expect(await refusalOf(["restore", lab.directory, "--to", to], {}, 1)).toContain("is not empty")
    renameSync(join(to, "kiln.db"), join(to, "kiln.db.restoring"))
    expect(await refusalOf(["project", "list"], { KILN_DATA_DIR: to }, 1)).toContain("there is no database")
    await jsonOf(["restore", lab.directory, "--to", to], {})
    expect(existsSync(join(to, "kiln.db.restoring"))).toBe(false)
  })

  it("deletes from an older backup what was deleted until the newest one", async () => {
    using lab = await arrange()
    const [one = "", two = ""] = lab.ids
    const old = await backUp(lab.directory, lab.env)
    const engine = await engineOn(lab.data)
    await engine.eraseData(one)
    await engine.stop()
    await backUp(lab.directory, lab.env)
    const to = join(lab.scratch, "restored")
    const restored = await jsonOf(["restore", lab.directory, "--backup", old.backup, "--to", to], {})
    expect(restored).toMatchObject({ files: 1, erased_jobs: 1 })
    expect(blobsIn(to)).toEqual([blobFile("", `jobs/${two.slice(4)}/1/audio`)])
    const env = { KILN_DATA_DIR: to }
    expect(await jsonOf(["job", "show", one], env)).toMatchObject({ status: "done", data: "deleted" })
    expect(await jsonOf(["job", "show", two], env)).toMatchObject({ status: "done", data: "kept" })
  })

  it("restores no damaged database", async () => {
    using lab = await arrange()
    const { backup } = await backUp(lab.directory, lab.env)
    truncateSync(join(lab.directory, "generations", backup, "kiln.db"), 4_096)
    const to = join(lab.scratch, "restored")
    expect(await refusalOf(["restore", lab.directory, "--to", to], {}, 1)).toContain("is damaged")
    // An older backup neither: what the damaged one lacks would count as deleted. The remedy works.
    const older = await backUp(lab.directory, lab.env)
    const newest = await backUp(lab.directory, lab.env)
    const damaged = join(lab.directory, "generations", newest.backup)
    truncateSync(join(damaged, "kiln.db"), 0)
    const restore = ["restore", lab.directory, "--backup", older.backup, "--to", to]
    expect(await refusalOf(restore, {}, 1)).toContain(`the newest backup, is damaged`)
    expect(existsSync(to)).toBe(false)
    rmSync(join(damaged, "manifest.json"))
    expect(await refusalOf(restore, {}, 1)).toContain("To use the other backups, move this one away")
    rmSync(damaged, { recursive: true })
    expect(await jsonOf(restore, {})).toMatchObject({ files: 2, erased_jobs: 0 })
  })
})
