import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
import { readSettings } from "../../src/Settings.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

interface Shown {
  readonly setting: string
  readonly value: string | null
  readonly source: string
  readonly file: string | null
}

const shown = async (env: Readonly<Record<string, string>>): Promise<ReadonlyMap<string, Shown>> =>
  new Map((await jsonOf(["config", "show"], env)).settings.map((each: Shown) => [each.setting, each]))

const signingKeys = `own:${Buffer.alloc(32, 7).toString("base64")},old:${Buffer.alloc(32, 8).toString("base64")}`

describe("kiln config show", () => {
  it("shows defaults that, written out, mean the same", async () => {
    const settings = await shown({})
    expect([...settings.values()].every(({ source }) => source === "default")).toBe(true)
    const written = Object.fromEntries(
      [...settings.values()].flatMap(({ setting, value }) =>
        // These two need DATABASE_URL or an address that the default derives from PORT.
        value === null || setting.startsWith("KILN_DATABASE_") || setting === "PUBLIC_URL" ? [] : [[setting, value]],
      ),
    )
    const [plain, explicit] = [readSettings({}), readSettings(written)]
    if (!plain.ok || !explicit.ok) throw new Error("the defaults are invalid")
    expect({ ...explicit.settings, engine: {} }).toEqual({ ...plain.settings, engine: {} })
    expect(settings.get("KILN_CONCURRENCY")?.value).toBe("32")
    expect(settings.get("KILN_DATA_RETENTION")?.value).toBe("30d")
    expect(settings.get("KILN_UPLOAD_CAP")?.value).toBe("200,2147483648")
    expect(settings.get("KILN_LEASE_SECONDS")?.value).toBe("30")
    expect(settings.get("PUBLIC_URL")?.value).toBe("http://127.0.0.1:8787")
  })

  it("names where each value comes from: default, environment, file, config file", async () => {
    using data = temporaryDirectory()
    const file = (name: string, text: string): string => {
      writeFileSync(join(data.path, name), text)
      return join(data.path, name)
    }
    const configPath = file(
      "kiln.config.mjs",
      `export default { engine: { queueCap: 7, attempts: { maxFailures: 9 } }, voices: { byName: { a: "b" }, default: "a" } }`,
    )
    const roleFile = file("role", "api\n")
    file("KILN_OPENAI_API_KEY", "from-systemd")
    const settings = await shown({
      PORT: "80",
      KILN_ROLE_FILE: roleFile,
      KILN_CONFIG: configPath,
      CREDENTIALS_DIRECTORY: data.path,
      KILN_PROVIDER: "openai",
    })
    expect(settings.get("PORT")).toEqual({ setting: "PORT", value: "80", source: "environment", file: null })
    expect(settings.get("PUBLIC_URL")?.value).toBe("http://127.0.0.1:80")
    expect(settings.get("KILN_ROLE")).toEqual({ setting: "KILN_ROLE", value: "api", source: "file", file: roleFile })
    expect(settings.get("KILN_OPENAI_API_KEY")).toMatchObject({ value: "***", source: "file" })
    expect(settings.get("KILN_QUEUE_CAP")).toMatchObject({ value: "7", source: "config", file: configPath })
    expect(settings.get("engine.attempts")).toMatchObject({ value: `{"maxFailures":9}`, source: "config" })
    expect(settings.get("voices")?.value).toBe("a")
    expect((await shown({ KILN_CONFIG: configPath, KILN_QUEUE_CAP: "3" })).get("KILN_QUEUE_CAP")).toMatchObject({
      value: "3",
      source: "environment",
    })
  })

  it("hides every secret, wherever it stands", async () => {
    const env = {
      DATABASE_URL: "postgres://kiln:pass%40word@db.internal:5432/kiln?sslmode=require&password=inquery",
      KILN_SIGNING_KEYS: signingKeys,
      KILN_OPENAI_API_KEY: "sk-canary",
      KILN_PROVIDER: "openai",
      KILN_BLOBS: "s3://bucket/prefix?endpoint=https://user:canary@s3.internal",
    }
    const settings = await shown(env)
    expect(settings.get("DATABASE_URL")?.value).toBe(
      "postgres://kiln:***@db.internal:5432/kiln?sslmode=require&password=***",
    )
    expect(settings.get("KILN_SIGNING_KEYS")?.value).toBe("own:***,old:***")
    const { stdout } = await runInProcess(["config", "show"], env)
    for (const text of [stdout, JSON.stringify([...settings.values()])])
      expect(text).not.toMatch(/pass%40word|pass@word|inquery|canary|BwcHBw|CAgICA/)
    expect(stdout).toMatch(/^SETTING +VALUE +FROM\nPORT +8787 +default\n/)
  })
})

describe("settings from files", () => {
  it("end without the line end of the file, and conflict with the variable", async () => {
    using data = temporaryDirectory()
    const path = join(data.path, "keys")
    writeFileSync(path, `${signingKeys}\n`)
    const read = readSettings({ KILN_SIGNING_KEYS_FILE: path })
    expect(read).toMatchObject({ ok: true, settings: { http: { signingKeys } }, warnings: [] })
    expect(readSettings({ KILN_SIGNING_KEYS_FILE: path, KILN_SIGNING_KEYS: signingKeys })).toMatchObject({
      problems: [{ setting: "KILN_SIGNING_KEYS_FILE", rule: expect.stringContaining("unset one of them") }],
    })
  })

  it("come from DATABASE_URL_FILE and from $CREDENTIALS_DIRECTORY, below a variable", () => {
    using data = temporaryDirectory()
    const url = "postgres://kiln@localhost/kiln"
    writeFileSync(join(data.path, "DATABASE_URL"), `${url}\n`)
    expect(readSettings({ DATABASE_URL_FILE: join(data.path, "DATABASE_URL") })).toMatchObject({
      settings: { database: { _tag: "Postgres", url } },
    })
    expect(readSettings({ CREDENTIALS_DIRECTORY: data.path })).toMatchObject({ settings: { database: { url } } })
    const other = "postgres://kiln@other/kiln"
    expect(readSettings({ CREDENTIALS_DIRECTORY: data.path, DATABASE_URL: other })).toMatchObject({
      settings: { database: { url: other } },
    })
    expect(readSettings({ CREDENTIALS_DIRECTORY: join(data.path, "none") })).toMatchObject({ ok: true })
  })

  it("that are missing, empty or invalid stop the command, without their content", async () => {
    using data = temporaryDirectory()
    const path = join(data.path, "secret")
    expect(await refusalOf(["config", "show"], { DATABASE_URL_FILE: path }, 2)).toMatch(
      /^kiln: DATABASE_URL_FILE names .*secret, which cannot be read for DATABASE_URL: ENOENT/,
    )
    writeFileSync(path, "\n")
    expect(await refusalOf(["config", "show"], { DATABASE_URL_FILE: path }, 2)).toContain("which is empty")
    writeFileSync(path, "mysql://root:canary@localhost")
    const message = await refusalOf(["config", "show"], { DATABASE_URL_FILE: path }, 2)
    expect(message).toMatch(/^kiln: DATABASE_URL must be a URL like postgres/)
    expect(message).not.toContain("canary")
    const unknown = await runInProcess(["config", "show"], { KILN_SIGNING_KEY_FILE: path })
    expect(unknown.stderr).toContain(
      "Unknown setting KILN_SIGNING_KEY_FILE is ignored; did you mean KILN_SIGNING_KEYS?",
    )
  })
})
