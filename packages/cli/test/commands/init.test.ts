import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
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
  ["billing", "export", "--from", "2026-01-01", "--to", "2026-02-01"],
  ["retention", "run"],
  ["blobs", "sweep"],
]
const settingUp = [
  ["project", "create", "acme"],
  ["price", "set", "svc-image", "--currency", "usd", "--image", "0.011"],
  ["switch", "off", "ai"],
  ["key", "create", "--project", "acme", "--mode", "test", "--scope", "audio.create"],
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
