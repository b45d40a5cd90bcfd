import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { freshDatabase, withClient } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
import { changeDatabase } from "../support/changeDatabase.ts"
import { jsonOf, refusalOf } from "../support/runInProcess.ts"

const existing = [
  ["job", "list"],
  ["queue", "stats"],
  ["project", "list"],
  ["price", "list"],
  ["price", "activate", "svc-audio"],
  ["switch", "status"],
  ["schedule", "list"],
  ["delivery", "list"],
  ["key", "list"],
  ["key", "revoke", "key_00000000000000000000000000"],
  // A project comes first, so without an installation this can only fail.
  ["key", "create", "--project", "acme", "--mode", "test", "--scope", "audio.create"],
  ["job", "show", "job_00000000000000000000000000"],
  ["audit", "list"],
  ["billing", "export", "--from", "2026-01-01", "--to", "2026-02-01"],
  ["retention", "run"],
  ["blobs", "sweep"],
]
const settingUp = [
  ["project", "create", "acme"],
  ["price", "set", "svc-image", "--currency", "usd", "--image", "0.011"],
  ["switch", "off", "ai"],
]

/** Commands that set up an installation, with arguments that are wrong in every one. */
const wrong = [
  ["project", "create", "prj_00000000000000000000000000"],
  ["price", "set", "svc-image", "--currency", "dollars", "--image", "1"],
  ["price", "set", "svc-image", "--input-character", "1"],
  ["switch", "on", "everything"],
]

describe("a directory without a database", () => {
  it.each([...existing, ...settingUp])(
    "kiln %s %s fails, names it and leaves it alone if it does not exist",
    async (...args) => {
      using data = temporaryDirectory()
      const env = { KILN_DATA_DIR: join(data.path, "wrong") }
      expect(await refusalOf(args, env, 1)).toBe(
        `kiln: there is no database ${data.path}/wrong/kiln.db, and no such directory: ` +
          "set KILN_DATA_DIR to the directory of the installation; to begin a new one there, run kiln serve or add --init\n",
      )
      expect(existsSync(join(data.path, "wrong"))).toBe(false)
    },
  )

  it.each([...existing, ...settingUp])("kiln %s %s fails if it belongs to something else", async (...args) => {
    using data = temporaryDirectory()
    writeFileSync(join(data.path, "thesis.txt"), "")
    expect(await refusalOf(args, { KILN_DATA_DIR: data.path }, 1)).toContain(
      `there is no database ${data.path}/kiln.db:`,
    )
    expect(existsSync(join(data.path, "kiln.db"))).toBe(false)
  })

  it.each(existing)("kiln %s %s fails if it is empty, because there is nothing to work on", async (...args) => {
    using data = temporaryDirectory()
    expect(await refusalOf(args, { KILN_DATA_DIR: data.path }, 1)).toContain("there is no database")
    expect(existsSync(join(data.path, "kiln.db"))).toBe(false)
  })

  it.each(wrong)("kiln %s %s with wrong arguments creates nothing in an empty one", async (...args) => {
    using data = temporaryDirectory()
    await refusalOf(args, { KILN_DATA_DIR: data.path }, 2)
    expect(readdirSync(data.path)).toEqual([])
  })

  it.each([...existing, ...settingUp])("kiln %s %s leaves another program's database alone", async (...args) => {
    using data = temporaryDirectory()
    changeDatabase(data.path, "CREATE TABLE theirs (id INTEGER PRIMARY KEY)")
    expect(await refusalOf(args, { KILN_DATA_DIR: data.path }, 1)).toContain(
      `there is no kiln installation in the database ${data.path}/kiln.db: set KILN_DATA_DIR to the directory of the installation`,
    )
    expect(readdirSync(data.path)).toEqual(["kiln.db"])
  })

  it("begins an installation with --init, and with commands that set one up if it is empty", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: join(data.path, "new/one") }
    expect(await jsonOf(["key", "list", "--init"], env)).toEqual({ keys: [] })
    expect(await jsonOf(["key", "list"], env)).toEqual({ keys: [] })
    mkdirSync(join(data.path, "volume/lost+found"), { recursive: true })
    const volume = { KILN_DATA_DIR: join(data.path, "volume") }
    expect(await jsonOf(["project", "create", "acme"], volume)).toMatchObject({ name: "acme" })
    expect((await jsonOf(["project", "list"], volume)).projects).toHaveLength(1)
  })
})

describe("a Postgres database without the schema", () => {
  it("is left alone by every command that reads or changes an installation, and by wrong arguments", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const env = { KILN_DATA_DIR: data.path, DATABASE_URL: database.url }
    for (const args of existing)
      expect(await refusalOf(args, env, 1), args.join(" ")).toMatch(
        /^kiln: there is no kiln installation in the Postgres database .*: set DATABASE_URL to the database of the installation; to begin a new one there, run kiln migrate or kiln serve\n$/,
      )
    for (const args of wrong) await refusalOf(args, env, 2)
    const { rows } = await withClient(database.url, (client) =>
      client.query("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public)'"),
    )
    expect(rows).toEqual([])
    expect(await jsonOf(["project", "create", "acme"], env)).toMatchObject({ name: "acme" })
    expect(await jsonOf(["key", "list"], env)).toEqual({ keys: [] })
  })
})

describe("a database that cannot be reached, with the files in it too", () => {
  it("is explained with the same words, whichever of the two is opened first", async () => {
    using data = temporaryDirectory()
    const env = {
      KILN_DATA_DIR: data.path,
      KILN_BLOBS: "postgres",
      DATABASE_URL: "postgres://kiln:secret@127.0.0.1:1/kiln",
      PORT: "0",
    }
    for (let run = 0; run < 4; run++)
      expect(await refusalOf(["serve"], env, 1)).toBe(
        "kiln: cannot open the Postgres database kiln at 127.0.0.1:1: no server is listening at this address\n",
      )
  })
})
