import { readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "vitest"
import { freshDatabase, withClient } from "@kiln/postgres-lab"
import { run, runJson, serve, temporaryDirectory } from "@kiln/service-lab"

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)

describe("kiln migrate", () => {
  it("lists pending migrations without changes, then applies them, then has nothing to do", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: join(data.path, "data") }
    const dry = await runJson(["migrate", "--dry-run"], env)
    expect(dry).toMatchObject({ dry_run: true, applied_now: [], applied: [], unknown: [] })
    expect(dry.pending[0]).toEqual({ name: "0001Initial", sql: expect.stringContaining("CREATE TABLE kiln_jobs") })
    expect(readdirSync(data.path)).toEqual([])

    const names: ReadonlyArray<string> = dry.pending.map(({ name }: { readonly name: string }) => name)
    const applied = names.map((name) => ({ name, applied_at: time }))
    const done = { dry_run: false, applied, pending: [], unknown: [] }
    expect(await runJson(["migrate"], env)).toEqual({ ...done, applied_now: names })
    expect(await runJson(["migrate"], env)).toEqual({ ...done, applied_now: [] })
    expect(await runJson(["migrate", "--dry-run"], env)).toEqual({ ...done, dry_run: true, applied_now: [] })
    const again = await run(["migrate"], env)
    expect(again).toEqual({ exit: 0, stdout: `the database ${env.KILN_DATA_DIR}/kiln.db is up to date\n`, stderr: "" })
  })

  it("prints what it did", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    expect((await run(["migrate", "--dry-run"], env)).stdout).toMatch(/^pending:\n {2}0001Initial\n/)
    expect((await run(["migrate"], env)).stdout).toMatch(/^applied now:\n {2}0001Initial\n/)
  })

  it("works beside a running server, which has migrated automatically", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using server = await serve(env)
    expect(await runJson(["migrate"], env)).toMatchObject({ applied_now: [], pending: [] })
    expect((await fetch(`${server.listening.url}/readyz`)).status).toBe(200)
  })

  it("explains in one sentence why a database cannot be opened, and exits with 1", async () => {
    using data = temporaryDirectory()
    writeFileSync(join(data.path, "kiln.db"), "this is no database, though it is long enough to be looked at")
    for (const args of [
      ["migrate", "--json"],
      ["migrate", "--dry-run", "--json"],
    ]) {
      const ended = await run(args, { KILN_DATA_DIR: data.path })
      expect({ exit: ended.exit, stdout: ended.stdout }).toEqual({ exit: 1, stdout: "" })
      expect(ended.stderr).toMatch(/^kiln: cannot open the database .*kiln\.db: file is not a database\n$/)
    }
  })
})

const commands = [
  ["serve"],
  ["migrate"],
  ["migrate", "--dry-run"],
  ["job", "list", "--json"],
  ["key", "list"],
  ["project", "create", "acme"],
  ["switch", "off", "ai"],
  ["retention", "run"],
]

/** Every command refuses the schema with the way out, and the doctor names it. */
const expectRefused = async (
  env: Readonly<Record<string, string>>,
  more: ReadonlyArray<ReadonlyArray<string>> = [],
) => {
  for (const args of [...commands, ...more]) {
    const { exit, stderr, stdout } = await run(args, env)
    expect({ args, exit, stdout }).toEqual({ args, exit: 1, stdout: "" })
    expect(stderr, args.join(" ")).toMatch(
      /^kiln: cannot open the (Postgres )?database .*: its schema is that of another development version/,
    )
    expect(stderr).toContain("Run the version of kiln that created it to finish its jobs and to export its records")
    expect(stderr.trim().split("\n")).toHaveLength(1)
  }
  const doctor = await run(["doctor"], env)
  expect(doctor.exit).toBe(1)
  expect(doctor.stdout).toMatch(/migrations.*another development version[\s\S]*0001Initial had another text/)
}

describe("a database of another development version", () => {
  it("is refused by every command, in a data directory", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path, PORT: "0" }
    await run(["migrate"], env)
    const database = new DatabaseSync(join(data.path, "kiln.db"))
    database.exec("UPDATE kiln_migrations SET digest = 'other' WHERE name = '0001Initial'")
    database.close()
    await expectRefused(env, [["backup", `${data.path}-backup`]])
  })

  it("is refused by every command, in Postgres", async () => {
    await using database = await freshDatabase()
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path, DATABASE_URL: database.url, PORT: "0" }
    await run(["migrate"], env)
    await withClient(database.url, (client) =>
      client.query("UPDATE kiln.migrations SET digest = 'other' WHERE name = '0001Initial'"),
    )
    await expectRefused(env)
  })
})
