import { resolve } from "node:path"
import { inspect } from "node:util"
import { Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { readSettings, settingNames, type Settings } from "../src/Settings.ts"
import { openAiProblem } from "../src/settings/openAi.ts"
import { defaultHttpSettings } from "@kiln/http"
import { run, serve, temporaryDirectory } from "@kiln/service-lab"

const settings = (environment: Readonly<Record<string, string>>): Settings => {
  const read = readSettings(environment)
  if (!read.ok) throw new Error(JSON.stringify(read.problems))
  return read.settings
}

const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64")

describe("settings", () => {
  it("have defaults", () => {
    expect(settings({})).toEqual({
      dataDirectory: resolve("data"),
      database: { _tag: "Sqlite", path: resolve("data/kiln.db") },
      blobs: { _tag: "Directory", path: undefined },
      role: "all",
      http: defaultHttpSettings,
      engine: {},
      firstKey: "on",
      provider: undefined,
      configPath: undefined,
      stopDelayMs: 0,
      management: undefined,
      logFormat: "text",
      accessLog: false,
      auditRetentionMs: 365 * 86_400_000,
      backupAgeMs: 2 * 86_400_000,
    })
    expect(defaultHttpSettings).toMatchObject({ host: "127.0.0.1", port: 8787, publicUrl: undefined, pages: true })
  })

  it("put blobs into the database of the records only if it is Postgres", () => {
    expect(settings({ DATABASE_URL: "postgres://h/d", KILN_BLOBS: "postgres" }).blobs).toEqual({ _tag: "Postgres" })
    expect(readSettings({ KILN_BLOBS: "postgres" })).toEqual({
      ok: false,
      problems: [{ setting: "KILN_BLOBS", rule: "can be postgres only with DATABASE_URL=postgres://…" }],
    })
  })

  it("are unset if they are empty", () => {
    expect(settings(Object.fromEntries(settingNames.map((name) => [name, " "])))).toEqual(settings({}))
  })

  it.each<[name: string, text: string, expected: object]>([
    ["PORT", "0", { http: { ...defaultHttpSettings, port: 0 } }],
    ["PORT", "65535", { http: { ...defaultHttpSettings, port: 65_535 } }],
    ["HOST", "0.0.0.0", { http: { ...defaultHttpSettings, host: "0.0.0.0" } }],
    ["HOST", "::1", { http: { ...defaultHttpSettings, host: "::1" } }],
    ["HOST", "kiln.internal", { http: { ...defaultHttpSettings, host: "kiln.internal" } }],
    ["PUBLIC_URL", "https://kiln.example/", { http: { ...defaultHttpSettings, publicUrl: "https://kiln.example" } }],
    ["PUBLIC_URL", "https://a.example/kiln", { http: { ...defaultHttpSettings, publicUrl: "https://a.example/kiln" } }],
    [
      "KILN_DATA_DIR",
      "elsewhere",
      { dataDirectory: resolve("elsewhere"), database: { _tag: "Sqlite", path: resolve("elsewhere/kiln.db") } },
    ],
    ["KILN_BLOBS", "file:", { blobs: { _tag: "Directory", path: undefined } }],
    ["KILN_BLOBS", "file:/mnt/blobs", { blobs: { _tag: "Directory", path: "/mnt/blobs" } }],
    ["KILN_BLOBS", "file:///mnt/blobs", { blobs: { _tag: "Directory", path: "/mnt/blobs" } }],
    ["KILN_BLOBS", "file:blobs", { blobs: { _tag: "Directory", path: resolve("blobs") } }],
    [
      "KILN_BLOBS",
      "s3://files.example/kiln/one/?region=eu-central-1&endpoint=https://minio.example:9000&style=path",
      {
        blobs: {
          _tag: "S3",
          bucket: "files.example",
          prefix: "kiln/one",
          region: "eu-central-1",
          endpoint: "https://minio.example:9000",
          style: "path",
        },
      },
    ],
    [
      "KILN_BLOBS",
      "s3://files",
      {
        blobs: {
          _tag: "S3",
          bucket: "files",
          prefix: undefined,
          region: undefined,
          endpoint: undefined,
          style: undefined,
        },
      },
    ],
    ["KILN_BLOBS", "./storage.ts", { blobs: { _tag: "Module", path: resolve("storage.ts") } }],
    [
      "KILN_SIGNING_KEYS",
      `a:${key(1)},b:${key(2)}`,
      { http: { ...defaultHttpSettings, signingKeys: `a:${key(1)},b:${key(2)}` } },
    ],
    ["KILN_ROLE", "api", { role: "api" }],
    ["KILN_ROLE", "worker", { role: "worker" }],
    ["KILN_COPIES", "allow", { database: { _tag: "Sqlite", path: resolve("data/kiln.db"), allowCopies: true } }],
    ["KILN_COPIES", "refuse", {}],
    ["KILN_CONCURRENCY", "64", { engine: { concurrency: 64 } }],
    ["KILN_PROJECT_CONCURRENCY", "0", { engine: { limits: { perProject: 0 } } }],
    ["KILN_PROJECT_CONCURRENCY", "5", { engine: { limits: { perProject: 5 } } }],
    ["KILN_PROJECT_CONCURRENCY", "share", { engine: { limits: { perProject: "share" } } }],
    ["KILN_LEASE_SECONDS", "2", { engine: { leaseDurationMs: 2_000 } }],
    ["KILN_DRAIN_SECONDS", "0", { engine: { drainMs: 0 } }],
    ["KILN_STOP_DELAY", "0", { stopDelayMs: 0 }],
    ["KILN_STOP_DELAY", "10m", { stopDelayMs: 600_000 }],
    [
      "KILN_TRUSTED_PROXIES",
      "10.0.0.0/8, ::1",
      { http: { ...defaultHttpSettings, trustedProxies: ["10.0.0.0/8", "::1"] } },
    ],
    ["KILN_OPERATOR_REQUESTS", "off", { engine: { operatorSeesRequests: false } }],
    ["KILN_QUEUE_CAP", "0", { engine: { queueCap: 0 } }],
    ["KILN_STORAGE_CAP", "0", { engine: { storageCap: { sandbox: 0, live: 0 } } }],
    ["KILN_STORAGE_CAP", "2GiB", { engine: { storageCap: { sandbox: 2_147_483_648, live: 2_147_483_648 } } }],
    ["KILN_STORAGE_CAP", "test=5,live=1KiB", { engine: { storageCap: { sandbox: 5, live: 1_024 } } }],
    ["KILN_STORAGE_CAP", "live=0, test=1MiB", { engine: { storageCap: { sandbox: 1_048_576, live: 0 } } }],
    ["KILN_UPLOAD_CAP", "0", { engine: { uploadCap: { uploads: 0, bytes: 0 } } }],
    ["KILN_UPLOAD_CAP", "50", { engine: { uploadCap: { uploads: 50, bytes: 2_147_483_648 } } }],
    ["KILN_UPLOAD_CAP", "200,2GiB", { engine: { uploadCap: { uploads: 200, bytes: 2_147_483_648 } } }],
    ["KILN_UPLOAD_CAP", "0, 512MiB", { engine: { uploadCap: { uploads: 0, bytes: 536_870_912 } } }],
    ["KILN_UPLOAD_CAP", "5,1000", { engine: { uploadCap: { uploads: 5, bytes: 1_000 } } }],
    ["KILN_UPLOAD_CAP", "5,0", { engine: { uploadCap: { uploads: 5, bytes: 0 } } }],
    ["KILN_DATA_RETENTION", "0", { engine: { dataRetentionMs: 0 } }],
    ["KILN_DATA_RETENTION", "10s", { engine: { dataRetentionMs: 10_000 } }],
    ["KILN_DATA_RETENTION", "30m", { engine: { dataRetentionMs: 1_800_000 } }],
    ["KILN_JOB_RETENTION", "24h", { engine: { jobRetentionMs: 86_400_000 } }],
    ["KILN_JOB_RETENTION", "90d", { engine: { jobRetentionMs: 7_776_000_000 } }],
    [
      "KILN_MANAGEMENT_PORT",
      "9090",
      { management: { host: "127.0.0.1", port: 9_090, token: undefined, dashboard: true } },
    ],
    ["KILN_LOG_FORMAT", "json", { logFormat: "json" }],
    ["KILN_ACCESS_LOG", "on", { accessLog: true }],
    ["KILN_SWITCH_AI", "off", { engine: { forcedOff: ["ai"] } }],
    ["KILN_SWITCH_IMAGES", "off", { engine: { forcedOff: ["images"] } }],
    ["KILN_PROVIDER", "sandbox", { provider: { _tag: "Sandbox" } }],
    ["KILN_CONFIG", "kiln.config.ts", { configPath: resolve("kiln.config.ts") }],
    ["KILN_FIRST_KEY", "off", { firstKey: "off" }],
    ["KILN_FIRST_KEY", "print", { firstKey: "print" }],
    ["KILN_PAGES", "off", { http: { ...defaultHttpSettings, pages: false } }],
    ["KILN_PLAYGROUND", "off", { http: { ...defaultHttpSettings, playground: false } }],
  ])("%s=%s", (name, text, expected) => {
    expect(settings({ [name]: text })).toEqual({ ...settings({}), ...expected })
  })

  it.each<[name: string, text: string, expected: object]>([
    ["DATABASE_URL", "postgresql:///kiln?host=/run/postgresql", { url: "postgresql:///kiln?host=/run/postgresql" }],
    [
      "DATABASE_URL",
      "postgres://u:p%40ss@h:6432/d?sslmode=require",
      { url: "postgres://u:p%40ss@h:6432/d?sslmode=require" },
    ],
    ["KILN_DATABASE_SCHEMA", "jobs_2", { schema: "jobs_2" }],
    ["KILN_DATABASE_POOL", "2", { poolSize: 2 }],
    ["KILN_DATABASE_POOL", "200", { poolSize: 200 }],
    ["KILN_DATABASE_NOTIFICATIONS", "off", { notifications: false }],
    ["KILN_DATABASE_POOLER", "transaction", { pooler: "transaction" }],
    ["KILN_COPIES", "allow", { allowCopies: true }],
  ])("of a Postgres database: %s=%s", (name, text, expected) => {
    const url = "postgres://localhost/kiln"
    const usual = { _tag: "Postgres", url, schema: "kiln", poolSize: 10, notifications: true, pooler: "none" }
    expect(settings({ DATABASE_URL: url }).database).toEqual(usual)
    expect(settings({ DATABASE_URL: url, [name]: text }).database).toEqual({ ...usual, ...expected })
  })

  it("of a Postgres database have no effect without one, which is reported", () => {
    expect(readSettings({ KILN_DATABASE_POOL: "5" })).toMatchObject({
      ok: true,
      warnings: [expect.stringMatching(/^KILN_DATABASE_POOL has no effect/)],
    })
    expect(readSettings({ KILN_DATABASE_POOL: "5", DATABASE_URL: "postgres://h/d" })).toMatchObject({ warnings: [] })
  })

  it("of OpenAI and compatible servers", () => {
    const none = { transcription: undefined, speech: undefined, reply: undefined, image: undefined }
    const keyed = settings({ KILN_PROVIDER: "openai", KILN_OPENAI_API_KEY: "sk-1" }).provider
    expect(keyed).toEqual({ _tag: "OpenAi", apiKey: expect.anything(), baseUrl: undefined, models: none })
    expect(keyed?._tag === "OpenAi" && keyed.apiKey !== undefined && Redacted.value(keyed.apiKey)).toBe("sk-1")
    expect(`${JSON.stringify(keyed)} ${inspect(keyed, { depth: null })}`).not.toContain("sk-1")
    expect(
      settings({
        KILN_PROVIDER: "openai",
        KILN_OPENAI_BASE_URL: "http://127.0.0.1:8080/v1/",
        KILN_OPENAI_TRANSCRIPTION_MODEL: "Systran/faster-whisper-small",
        KILN_OPENAI_SPEECH_MODEL: "kokoro",
        KILN_OPENAI_REPLY_MODEL: "llama-3.2:3b",
        KILN_OPENAI_IMAGE_MODEL: "off",
      }).provider,
    ).toEqual({
      _tag: "OpenAi",
      apiKey: undefined,
      baseUrl: "http://127.0.0.1:8080/v1",
      models: {
        transcription: "Systran/faster-whisper-small",
        speech: "kokoro",
        reply: "llama-3.2:3b",
        image: null,
      },
    })
  })

  it("of clients of OpenAI have the models of the provider", () => {
    const served = { KILN_OPENAI_API: "on", KILN_OPENAI_WAIT: "5s", KILN_OPENAI_SPEECH_MODEL: "kokoro" }
    expect(settings(served).http.openAi).toEqual({ waitMs: 5_000 })
    expect(settings({ ...served, KILN_PROVIDER: "openai", KILN_OPENAI_IMAGE_MODEL: "off" }).http.openAi).toEqual({
      waitMs: 5_000,
      models: { transcription: undefined, speech_synthesis: "kokoro", image_generation: null },
    })
    expect(settings({ KILN_PROVIDER: "openai" }).http.openAi).toBeUndefined()
  })

  it("of OpenAI without a key and a server serve nothing", () => {
    const problemOf = (more: Readonly<Record<string, string>>) => {
      const { provider } = settings({ KILN_PROVIDER: "openai", ...more })
      return provider?._tag === "OpenAi" ? openAiProblem(provider) : "not OpenAI"
    }
    for (const more of [{}, { KILN_OPENAI_API_KEY: " " }, { KILN_OPENAI_IMAGE_MODEL: "off" }])
      expect(problemOf(more)).toContain("KILN_OPENAI_BASE_URL")
    for (const more of [{ KILN_OPENAI_API_KEY: "sk" }, { KILN_OPENAI_BASE_URL: "http://127.0.0.1:8080/v1" }])
      expect(problemOf(more)).toBeUndefined()
    // A key that no header can carry is not one that is missing as well.
    expect(readSettings({ KILN_PROVIDER: "openai", KILN_OPENAI_API_KEY: "sk 1" })).toEqual({
      ok: false,
      problems: [{ setting: "KILN_OPENAI_API_KEY", rule: expect.stringContaining("visible ASCII") }],
    })
  })

  it.each([
    ["KILN_OPENAI_API_KEY", "sk-1"],
    ["KILN_OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"],
    ["KILN_OPENAI_TRANSCRIPTION_MODEL", "whisper-1"],
    ["KILN_OPENAI_SPEECH_MODEL", "tts-1"],
    ["KILN_OPENAI_REPLY_MODEL", "off"],
    ["KILN_OPENAI_IMAGE_MODEL", "off"],
  ])("%s has no effect if OpenAI is not used, which is reported", (name, text) => {
    for (const environment of [{}, { KILN_PROVIDER: "sandbox" }])
      expect(readSettings({ ...environment, [name]: text })).toMatchObject({
        ok: true,
        warnings: [`${name} has no effect: KILN_PROVIDER is not openai`],
      })
    expect(readSettings({ KILN_PROVIDER: "openai", KILN_OPENAI_API_KEY: "sk-1", [name]: text })).toMatchObject({
      ok: true,
      warnings: [],
    })
  })

  it("KILN_RATE_LIMITS", () => {
    expect(settings({ KILN_RATE_LIMITS: "default" })).toEqual(settings({}))
    expect(
      Object.values(settings({ KILN_RATE_LIMITS: "off" }).http.rateLimits).map((limit) => limit.perMinute),
    ).toEqual(Array(6).fill(0))
    const limits = settings({ KILN_RATE_LIMITS: `{"create":{"per_minute":6,"burst":3}}` }).http.rateLimits
    expect(limits).toEqual({ ...defaultHttpSettings.rateLimits, create: { perMinute: 6, burst: 3 } })
  })

  it.each([
    ["PORT", ["-1", "65536", "1.5", "http", "0x10"], "a port"],
    ["HOST", ["a b", "127.0.0.1:80", "-x", "http://x"], "host name"],
    ["PUBLIC_URL", ["kiln.example", "ftp://x", "http://u:p@x", "http://x/?a=1", "http://x/#a", "http://x/?"], "http"],
    ["DATABASE_URL", ["mysql://localhost/kiln", "kiln.db", "postgres:kiln", "POSTGRES"], "SQLite"],
    [
      "DATABASE_URL",
      ["postgres://u:p#ss@h/d", "postgres://u:p ss@h/d", "postgres://u:p%zz@h/d", "postgres://h:x/d"],
      "%40",
    ],
    ["KILN_DATABASE_SCHEMA", ["Kiln", "1kiln", "a-b", 'a"b', "pg_kiln", "a".repeat(52)], "1 to 51 of the characters"],
    ["KILN_DATABASE_POOL", ["1", "201", "ten"], "from 2 to 200"],
    ["KILN_DATABASE_NOTIFICATIONS", ["true"], "must be on or off"],
    ["KILN_DATABASE_POOLER", ["session", "pgbouncer"], "must be none or transaction"],
    ["KILN_BLOBS", ["blobs", "file://host/x"], "file:"],
    ["KILN_BLOBS", ["s3:bucket", "s3://", "s3://bucket:80", "s3://b#x"], "s3://bucket/prefix?region="],
    ["KILN_BLOBS", ["s3://id:secret@bucket", "s3://id@bucket"], "AWS_ACCESS_KEY_ID"],
    [
      "KILN_BLOBS",
      ["s3://bucket?regoin=x", "s3://bucket?region=a&region=b"],
      "region, endpoint, style, each at most once",
    ],
    ["KILN_BLOBS", ["s3://bucket?style=virtual"], "style must be path or host"],
    ["KILN_SIGNING_KEYS", ["a", "a:short", `a:${key(1)},a:${key(2)}`], "entry"],
    ["KILN_ROLE", ["both", "ALL"], "must be all, api or worker"],
    ["KILN_CONCURRENCY", ["0", "1001", "eight"], "from 1 to 1000"],
    ["KILN_PROJECT_CONCURRENCY", ["-1", "1.5", "half", "1000001"], "from 0 to 1000000, or share"],
    ["KILN_LEASE_SECONDS", ["1", "1.9", "0", "30s"], "from 2 to"],
    ["KILN_DRAIN_SECONDS", ["-1", "1m"], "from 0 to"],
    ["KILN_STOP_DELAY", ["5", "-5s", "11m"], "0 or a duration up to 10m"],
    ["KILN_TRUSTED_PROXIES", ["10.0.0.0/33", "proxy"], "entry 1"],
    ["KILN_RATE_LIMITS", ["on", "{}{}", `{"creat":{"per_minute":1}}`], ""],
    ["KILN_QUEUE_CAP", ["-1", "none"], "from 0 to"],
    [
      "KILN_STORAGE_CAP",
      ["-1", "none", "2GB", "test=", "test=1,test=2", "sandbox=1", "1,2", "1.5GiB"],
      "such as 20GiB",
    ],
    ["KILN_UPLOAD_CAP", ["-1", "none", "2GiB", "200,", "200,2GB", "200;2GiB", "1,2,3", "1.5"], "such as 200,2GiB"],
    ["KILN_DATA_RETENTION", ["30", "1w", "0d", "1.5d", "30 d"], "duration like 90d"],
    [
      "KILN_DATA_RETENTION",
      ["36501d", "99999999d", "99999999999d", `${"9".repeat(400)}s`],
      "at most 36500d, or 0 to keep",
    ],
    ["KILN_JOB_RETENTION", ["never"], "or 0 to keep"],
    ["KILN_ORPHAN_GRACE", ["0", "soon"], "duration like 90d"],
    ["KILN_OPENAI_WAIT", ["99999999999d"], "up to 10m"],
    ["KILN_MANAGEMENT_PORT", ["0", "on"], "from 1 to 65535"],
    ["KILN_MANAGEMENT_PORT", ["8787"], "must differ from PORT"],
    ["KILN_MANAGEMENT_HOST", ["0.0.0.0:9090", "http://x", "a b"], "must be a host name or an IP address"],
    ["KILN_MANAGEMENT_TOKEN", ["short", "with a space in it", "é".repeat(20)], "16 to 512 visible ASCII"],
    ["KILN_LOG_FORMAT", ["JSON", "logfmt"], "must be text or json"],
    ["KILN_ACCESS_LOG", ["yes"], "must be on or off"],
    ["KILN_SWITCH_AI", ["on", "true"], "must be off"],
    ["KILN_PROVIDER", ["OpenAI", "ollama", "off"], "must be openai or sandbox, or unset"],
    ["KILN_OPENAI_API_KEY", ["sk 1", "sk-é", "a".repeat(513)], "visible ASCII"],
    ["KILN_OPENAI_BASE_URL", ["localhost:8080/v1", "ftp://x", "http://u:p@x/v1", "http://x/?a=1"], "http"],
    ["KILN_OPENAI_TRANSCRIPTION_MODEL", ["whisper 1", "é"], "or off"],
    ["KILN_OPENAI_SPEECH_MODEL", ["a".repeat(201)], "or off"],
    ["KILN_OPENAI_REPLY_MODEL", ["gpt 5"], "or off"],
    ["KILN_OPENAI_IMAGE_MODEL", ["\u0001"], "or off"],
    ["KILN_FIRST_KEY", ["no"], "must be on, print or off"],
    ["KILN_PAGES", ["0"], "must be on or off"],
    ["KILN_PLAYGROUND", ["local"], "must be on or off"],
    ["KILN_DASHBOARD", ["no"], "must be on or off"],
  ])("%s refuses %s", (setting, texts, rule) => {
    for (const text of texts)
      expect(readSettings({ [setting]: text }), text).toEqual({
        ok: false,
        problems: [{ setting, rule: expect.stringContaining(rule) }],
      })
  })

  it("allow the management port 8787 if nothing else listens there", () => {
    for (const other of [{ KILN_ROLE: "worker" }, { HOST: "192.0.2.1" }, { PORT: "8080" }, { LISTEN_FDS: "1" }])
      expect(readSettings({ KILN_MANAGEMENT_PORT: "8787", ...other })).toMatchObject({ ok: true })
  })

  it("do not reveal an invalid secret", () => {
    expect(JSON.stringify(readSettings({ KILN_SIGNING_KEYS: "a:c2VjcmV0" }))).not.toContain("c2VjcmV0")
    expect(JSON.stringify(readSettings({ DATABASE_URL: "postgres://u:c2VjcmV0#@h/d" }))).not.toContain("c2VjcmV0")
    expect(JSON.stringify(readSettings({ KILN_OPENAI_API_KEY: "c2VjcmV0 1" }))).not.toContain("c2VjcmV0")
  })

  it("that are unknown are reported with the intended one", () => {
    const read = readSettings({ KILN_DATADIR: "x", KILN_PORT: "1", KILN_CONCURENCY: "1", OTHER_TOOL: "x" })
    expect(read).toMatchObject({
      ok: true,
      warnings: [
        expect.stringMatching(/^Unknown setting KILN_DATADIR .*did you mean KILN_DATA_DIR\?$/),
        expect.stringMatching(/^Unknown setting KILN_PORT .*did you mean PORT\?$/),
        expect.stringMatching(/^Unknown setting KILN_CONCURENCY .*did you mean KILN_CONCURRENCY\?$/),
      ],
    })
  })
})

describe("kiln", { timeout: 120_000 }, () => {
  it("names all invalid settings at once, on standard error, and exits with 2", async () => {
    for (const command of [["serve"], ["project", "list", "--json"]]) {
      const ended = await run(command, {
        PORT: "x",
        KILN_LEASE_SECONDS: "1",
        DATABASE_URL: "mysql://localhost/kiln",
      })
      expect({ exit: ended.exit, stdout: ended.stdout }).toEqual({ exit: 2, stdout: "" })
      expect(ended.stderr).toMatch(/^ +PORT must be a port/m)
      expect(ended.stderr).toMatch(/^ +KILN_LEASE_SECONDS must be an integer from 2/m)
      expect(ended.stderr).toMatch(/^ +DATABASE_URL must be a URL like postgres:/m)
    }
  })

  it("names a single one in one line", async () => {
    const ended = await run(["serve"], { KILN_ROLE: "both" })
    expect(ended).toEqual({ exit: 2, stdout: "", stderr: "kiln: KILN_ROLE must be all, api or worker\n" })
  })

  it("does not start with OpenAI without a key, but a command that sets a switch works", async () => {
    using data = temporaryDirectory()
    const environment = { KILN_PROVIDER: "openai", KILN_DATA_DIR: data.path }
    expect(await run(["switch", "off", "ai"], environment)).toEqual({ exit: 0, stdout: "ai is off\n", stderr: "" })
    const diagnosis = JSON.parse((await run(["doctor", "--json"], environment)).stdout)
    expect(diagnosis.checks[0]).toMatchObject({ name: "settings", status: "problem" })
    expect(await run(["serve"], { KILN_PROVIDER: "openai" })).toEqual({
      exit: 2,
      stdout: "",
      stderr: "kiln: KILN_OPENAI_API_KEY must be set if KILN_PROVIDER=openai has no KILN_OPENAI_BASE_URL\n",
    })
  })

  it("reports at startup which variables have no effect, without their values", async () => {
    using data = temporaryDirectory()
    const environment = { KILN_DATA_DIR: data.path, KILN_FIRST_KEY: "off", KILN_OPENAI_API_KEY: "sk-c2VjcmV0" }
    await using kiln = await serve(environment)
    await kiln.says(/KILN_OPENAI_API_KEY has no effect: KILN_PROVIDER is not openai/, "stderr")
    expect(kiln.stdout + kiln.stderr).not.toContain("c2VjcmV0")
  })
})
