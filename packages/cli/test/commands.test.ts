import { readFileSync } from "node:fs"
import { join } from "node:path"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { parseApiKey } from "@kiln/core/domain"
import { run, runJson, temporaryDirectory } from "@kiln/service-lab"

const projectId = expect.stringMatching(/^prj_[0-9a-z]{26}$/)
const keyId = expect.stringMatching(/^key_[0-9a-z]{26}$/)
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
const allScopes = ["--scope", "audio.create", "--scope", "images.create"]

describe("kiln project", { timeout: 120_000 }, () => {
  it("creates and lists projects", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    expect(await runJson(["project", "list", "--init"], env)).toEqual({ projects: [] })
    const made = await runJson(["project", "create", "acme"], env)
    expect(made).toEqual({ project_id: projectId, name: "acme" })
    expect(await runJson(["project", "list"], env)).toEqual({ projects: [{ ...made, created_at: time }] })

    const again = await run(["project", "create", "acme", "--json"], env)
    expect(again).toEqual({ exit: 1, stdout: "", stderr: "kiln: a project named acme already exists\n" })
    const table = await run(["project", "list"], env)
    expect(table.stdout).toMatch(/^PROJECT +NAME +CREATED\nprj_[0-9a-z]{26} {2}acme {2}\S+Z\n$/)
  })

  it.each([[""], [" acme"], ["a\nb"], ["x".repeat(101)], [`prj_${"0".repeat(26)}`]])(
    "refuses the name %j",
    async (name) => {
      using data = temporaryDirectory()
      const { exit, stderr, stdout } = await run(["project", "create", name], { KILN_DATA_DIR: data.path })
      expect({ exit, stdout }).toEqual({ exit: 2, stdout: "" })
      expect(stderr).toMatch(/^kiln: NAME must/)
    },
  )
})

describe("kiln key", { timeout: 120_000 }, () => {
  it("creates, lists and revokes keys of a project given by name or id", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const project = await runJson(["project", "create", "acme"], env)
    const test = await runJson(
      ["key", "create", "--project", "acme", "--mode", "test", ...allScopes, "--name", "ci"],
      env,
    )
    expect(test).toEqual({
      key: expect.any(String),
      key_id: keyId,
      project_id: project.project_id,
      mode: "test",
      scopes: ["audio.create", "images.create"],
      name: "ci",
      expires_at: null,
    })
    expect(parseApiKey(test.key)).toEqual({ mode: "test" })
    const liveFlags = [
      "--project",
      project.project_id,
      "--mode",
      "live",
      "--scope",
      "images.create",
      "--expires",
      "90d",
    ]
    const live = await runJson(["key", "create", ...liveFlags], env)
    expect(live).toMatchObject({ mode: "live", scopes: ["images.create"], name: null, expires_at: time })
    expect(Date.parse(live.expires_at) - Date.now()).toBeGreaterThan(89.9 * 86_400_000)

    const revoked = await runJson(["key", "revoke", test.key_id], env)
    expect(revoked).toEqual({ key_id: test.key_id, revoked_at: time })
    expect(await runJson(["key", "revoke", test.key_id], env)).toEqual(revoked)

    const record = { created_at: time, expires_at: null, revoked_at: null, last_used_at: null, limits: {} }
    const { key: _, ...testFields } = test
    const { key: __, ...liveFields } = live
    expect(await runJson(["key", "list"], env)).toEqual({
      keys: [
        { ...record, ...testFields, status: "revoked", revoked_at: revoked.revoked_at },
        { ...record, ...liveFields, status: "active" },
      ],
    })
    const table = await run(["key", "list"], env)
    expect(table.stdout.split("\n")[0]).toMatch(
      /^KEY +PROJECT +MODE +STATUS +SCOPES +LIMITS +NAME +CREATED +EXPIRES +LAST USED$/,
    )
    expect(table.stdout).not.toContain("kiln_")
    for (const file of ["kiln.db"]) {
      const stored = readFileSync(join(data.path, file), "latin1")
      expect(stored).not.toContain(test.key)
      expect(stored).not.toContain(live.key)
    }
  })

  it("shows a key to a person, once", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await runJson(["project", "create", "acme"], env)
    const { exit, stdout } = await run(["key", "create", "--project", "acme", "--mode", "test", ...allScopes], env)
    expect(exit).toBe(0)
    expect(parseApiKey(stdout.split("\n")[0] ?? "")).toEqual({ mode: "test" })
    expect(stdout).toContain("shown only once")
  })

  it.each([
    ["escape sequences", "evil\n\u001b[31mred"],
    ["right-to-left overrides", "a\u202eb"],
    ["length", "x".repeat(101)],
  ])("refuses a name with %s, because it appears in tables", async (_what, name) => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await runJson(["project", "create", "acme"], env)
    const key = await run(["key", "create", "--project", "acme", "--mode", "test", ...allScopes, "--name", name], env)
    const project = await run(["project", "create", name], env)
    expect([key.exit, key.stdout, project.exit, project.stdout]).toEqual([2, "", 2, ""])
  })

  it("reports what cannot be found, and exits with 1", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await run(["project", "create", "somebody"], env)
    const create = await run(["key", "create", "--project", "nobody", "--mode", "test", ...allScopes, "--json"], env)
    expect({ ...create, stderr: create.stderr.split(":")[1] }).toEqual({
      exit: 1,
      stdout: "",
      stderr: ' there is no project "nobody"',
    })
    for (const id of ["key_00000000000000000000000000", "nonsense"]) {
      const revoke = await run(["key", "revoke", id, "--json"], env)
      expect({ ...revoke, stderr: revoke.stderr.split(":")[1] }).toEqual({
        exit: 1,
        stdout: "",
        stderr: ` there is no key ${id}`,
      })
    }
  })
})

describe("kiln switch", { timeout: 120_000 }, () => {
  it("switches on and off", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const off = { ai: "off", audio: "off", images: "off" }
    expect(await runJson(["switch", "status", "--init"], env)).toEqual({ switches: off, forced_off: [] })
    expect(await runJson(["switch", "on", "audio"], env)).toEqual({ switch: "audio", status: "on" })
    expect(await runJson(["switch", "on", "ai"], env)).toEqual({ switch: "ai", status: "on" })
    expect(await runJson(["switch", "off", "ai"], env)).toEqual({ switch: "ai", status: "off" })
    expect(await runJson(["switch", "status"], { ...env, KILN_SWITCH_AUDIO: "off" })).toEqual({
      switches: { ...off, audio: "on" },
      forced_off: ["audio"],
    })
    const { stderr } = await run(["switch", "status"], { ...env, KILN_SWITCH: "off" })
    expect(stderr.match(/Unknown setting KILN_SWITCH is ignored/g)).toHaveLength(1)
    expect((await run(["switch", "status"], env)).stdout).toBe("SWITCH  STATUS\nai      off\naudio   on\nimages  off\n")
  })

  it("lists and sets a switch of a kind that only the program has", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const exporting = jobKind({
      name: "export",
      request: z.object({}),
      switches: ["exports"],
      run: async () => ({ output: {} }),
    })
    const store = sqliteStore({ path: join(data.path, "kiln.db") })
    await using engine = await createEngine({
      store,
      blobs: memoryBlobs(),
      kinds: [exporting],
      mode: "live",
      log: false,
    })
    await engine.operator.setSwitch("exports", true)
    const off = { ai: "off", audio: "off", images: "off" }
    expect(await runJson(["switch", "status"], env)).toMatchObject({ switches: { ...off, exports: "on" } })
    expect(await runJson(["switch", "off", "exports"], env)).toEqual({ switch: "exports", status: "off" })
    expect(await runJson(["switch", "status"], env)).toMatchObject({ switches: { ...off, exports: "off" } })
    await expect(engine.submit("export", {})).rejects.toMatchObject({ missing: ["switch:exports"] })
    expect((await run(["switch", "on", "export"], env)).stderr).toContain("ai, audio, images, exports")
  })
})

describe("kiln price", { timeout: 120_000 }, () => {
  it("sets versions, activates and deactivates", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    expect(await runJson(["price", "list", "--init"], env)).toEqual({ prices: [] })
    const missing = await run(["price", "activate", "svc-image", "--json"], env)
    expect({ exit: missing.exit, stdout: missing.stdout }).toEqual({ exit: 1, stdout: "" })

    const flags = ["--input-audio-second", "0.0001", "--input-character", "0.000015", "--output-token", "0.00002"]
    const audio = await runJson(["price", "set", "svc-audio", "--currency", "usd", ...flags], env)
    expect(audio).toEqual({
      name: "svc-audio",
      version: 1,
      active: false,
      currency: "usd",
      unit_amounts: { input_audio_seconds: "0.0001", input_characters: "0.000015", output_tokens: "0.00002" },
      created_at: time,
    })
    await runJson(["price", "set", "svc-image", "--image", "0.011"], env)
    expect(await runJson(["price", "activate", "svc-image"], env)).toEqual({ name: "svc-image", active: true })
    const second = await runJson(["price", "set", "svc-image", "--currency", "eur", "--image", "0.02"], env)
    expect(second).toMatchObject({ version: 2, active: true, currency: "eur", unit_amounts: { images: "0.02" } })
    expect((await runJson(["price", "list"], env)).prices).toMatchObject([
      { name: "svc-audio", version: 1, active: false },
      { name: "svc-image", version: 1, active: false },
      { name: "svc-image", version: 2, active: true },
    ])
    expect(await runJson(["price", "deactivate", "svc-image"], env)).toEqual({ name: "svc-image", active: false })
  })

  it("set warns about job types that stay inactive without a meter; 0 must be explicit", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    const part = ["price", "set", "svc-audio", "--input-character", "0.1", "--output-token", "0"]
    expect(await runJson(part, env)).toMatchObject({ closed_types: ["transcription", "voice_turn"] })
    const { exit, stdout } = await run(part, env)
    expect(exit).toBe(0)
    for (const type of ["transcription", "voice_turn"])
      expect(stdout).toContain(
        `warning: live jobs of type ${type} are rejected: the price lacks --input-audio-second; use 0 for free meters`,
      )
    expect(await runJson([...part, "--input-audio-second", "0"], env)).not.toHaveProperty("closed_types")
  })

  it.each([
    [["svc-audio", "--image", "1"], "--image belongs to svc-image"],
    [["svc-image"], "needs a unit amount: --image"],
    [["svc-image", "--image", "1e3"], "plain decimal"],
    [["svc-image", "--image=-1"], "plain decimal"],
    [["svc-image", "--image", "1", "--currency", "USD"], "lower-case ISO 4217"],
    [["svc-video", "--image", "1"], "svc-video"],
    [["svc-audo", "--input-character", "1"], '"svc-audio" | "svc-image"'],
    [["svc-audio", "--input-characters", "1"], "Did you mean this?"],
  ])("set refuses %j", async (args, message) => {
    using data = temporaryDirectory()
    const { exit, stderr, stdout } = await run(["price", "set", ...args, "--json"], { KILN_DATA_DIR: data.path })
    expect({ exit, stdout }).toEqual({ exit: 2, stdout: "" })
    expect(stderr).toContain(message)
  })
})

describe("kiln", { timeout: 120_000 }, () => {
  it.each([
    [[], "USAGE"],
    [["frobnicate"], "Unknown subcommand"],
    [["key"], "USAGE"],
    [["key", "create"], "--project"],
    [["key", "create", "--project", "p", "--mode", "both", "--scope", "audio.create"], "both"],
    [["key", "create", "--project", "p", "--mode", "test"], "scope"],
    [["key", "create", "--project", "p", "--mode", "test", "--scope", "audio"], "audio"],
    [
      ["key", "create", "--project", "p", "--mode", "test", "--scope", "audio.create", "--expires", "soon"],
      "--expires must",
    ],
    [
      ["key", "create", "--project", "p", "--mode", "test", "--scope", "audio.create", "--expires", "-1h"],
      "--expires must",
    ],
    [["key", "revoke"], "KEY_ID"],
    [["project", "create"], "NAME"],
    [["project", "list", "--frob"], "frob"],
    [["switch", "on", "everything"], 'SWITCH must be one of ai, audio, images, not "everything"'],
    [["serve", "extra"], "extra"],
  ])("misused as %j exits with 2 and writes nothing to standard output", async (args, message) => {
    using data = temporaryDirectory()
    const { exit, stderr, stdout } = await run([...args, "--json"], { KILN_DATA_DIR: data.path })
    expect({ exit, stdout }).toEqual({ exit: 2, stdout: "" })
    expect(stderr).toContain(message)
  })

  it("prints its version and its help to standard output", async () => {
    const manifest = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"))
    expect(await run(["--version"])).toEqual({ exit: 0, stdout: `kiln ${manifest.version}\n`, stderr: "" })
    const help = await run(["--help"])
    expect({ exit: help.exit, stderr: help.stderr }).toEqual({ exit: 0, stderr: "" })
    for (const command of ["serve", "project", "key", "switch", "price", "migrate", "doctor", "copy"])
      expect(help.stdout).toMatch(new RegExp(`^  ${command} `, "m"))
    expect((await run(["key", "create", "--help"])).stdout).toContain("--scope")
    expect((await run(["copy", "--help"])).stdout).toMatch(/--from[\s\S]*--to/)
    // As many other programs spell it.
    expect(await run(["version"])).toEqual(await run(["--version"]))
    expect(await run(["help"])).toEqual(help)
    expect(await run(["help", "key", "create"])).toEqual(await run(["key", "create", "--help"]))
  })

  it("warns about unknown settings on standard error, and continues", async () => {
    using data = temporaryDirectory()
    const ended = await run(["project", "list", "--init", "--json"], { KILN_DATA_DIR: data.path, KILN_DATADIR: "x" })
    expect({ exit: ended.exit, stdout: ended.stdout }).toEqual({ exit: 0, stdout: `{"projects":[]}\n` })
    expect(ended.stderr.match(/did you mean KILN_DATA_DIR\?/g)).toHaveLength(1)
  })
})
