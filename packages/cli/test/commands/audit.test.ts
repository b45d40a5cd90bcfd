import { hostname, userInfo } from "node:os"
import { fixtures } from "@kiln/conformance"
import { AuditLog, KeyDirectory, SecretStore } from "@kiln/core/ports"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { pruneAuditLog } from "../../src/serve/serve.ts"
import { seedEveryState } from "../support/copiedRecords.ts"
import { installations, type Installation, sqliteInstallation } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const { jobId, keyId } = fixtures
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
const who = { actor: `user ${userInfo().username}`, origin: `host ${hostname()}` }

interface Change {
  readonly number: number
  readonly action: string
  readonly subject: string | null
}

const changes = async ({ env }: Installation, ...args: ReadonlyArray<string>): Promise<ReadonlyArray<Change>> =>
  (await jsonOf(["audit", "list", ...args], env)).changes

const actions = async (installation: Installation): Promise<ReadonlyArray<string>> =>
  (await changes(installation)).map(({ action, subject }) => `${action} ${subject}`).toReversed()

describe.each(installations)("kiln audit on %s", (_name, open) => {
  it("lists every change once: who, what, when, from where, and never a secret", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    expect(await changes(installation)).toEqual([])
    const project = await jsonOf(["project", "create", "acme"], env)
    const key = await jsonOf(
      ["key", "create", "--project", "acme", "--mode", "test", "--scope", "audio.create", "--name", "ci"],
      env,
    )
    const rotated = await jsonOf(["key", "rotate", key.key_id, "--overlap", "1h"], env)
    await jsonOf(["key", "revoke", key.key_id], env)
    await jsonOf(["price", "set", "svc-image", "--image", "0.01"], env)
    await jsonOf(["price", "activate", "svc-image"], env)
    await jsonOf(["price", "deactivate", "svc-image"], env)
    await jsonOf(["switch", "on", "images"], env)
    await jsonOf(["switch", "off", "images"], env)
    await jsonOf(["queue", "pause", "voice_turn"], env)
    await jsonOf(["queue", "resume", "voice_turn"], env)
    await jsonOf(["job", "cancel", jobId(1)], env)
    await jsonOf(["job", "purge-data", jobId(4)], env)
    const signing = Buffer.alloc(32, 77).toString("base64")
    await jsonOf(["signing-key", "add", "own"], env, signing)
    await jsonOf(["signing-key", "add", "second", "--generate"], env)
    await jsonOf(["signing-key", "use", "second"], env)
    await jsonOf(["signing-key", "drop", "own"], env)
    await jsonOf(["retention", "run"], env)
    expect(await actions(installation)).toEqual([
      `project.create ${project.project_id}`,
      `key.create ${key.key_id}`,
      `key.rotate ${key.key_id}`,
      `key.revoke ${key.key_id}`,
      "price.set svc-image",
      "price.activate svc-image",
      "price.deactivate svc-image",
      "switch.on images",
      "switch.off images",
      "queue.pause voice_turn",
      "queue.resume voice_turn",
      `job.cancel ${jobId(1)}`,
      `job.erase-data ${jobId(4)}`,
      "signing-key.add own",
      "signing-key.add second",
      "signing-key.use second",
      "signing-key.drop own",
      "retention.run null",
    ])
    const all = await changes(installation)
    for (const change of all) expect(change).toMatchObject({ ...who, at: time })
    expect(all.find(({ action }) => action === "key.create")).toMatchObject({
      details: { project_id: project.project_id, mode: "test", scopes: ["audio.create"], name: "ci" },
    })
    expect(all.find(({ action }) => action === "key.rotate")).toMatchObject({ details: { overlap_seconds: 3_600 } })
    const text = JSON.stringify(all) + (await runInProcess(["audit", "list"], env)).stdout
    for (const secret of [key.key, rotated.key, signing, "kiln_test_"]) expect(text).not.toContain(secret)
  })

  it("records nothing for a command that changed nothing", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    const unknown = "job_00000000000000000000000000"
    await refusalOf(["project", "create", "one"], env, 1)
    await refusalOf(["key", "revoke", "key_00000000000000000000000000"], env, 1)
    // Key 2 is revoked, job 4 is finished, job 2 is not, job 9 has lost its data.
    await refusalOf(["key", "rotate", keyId(2)], env, 1)
    await refusalOf(["price", "activate", "svc-image"], env, 1)
    await refusalOf(["job", "cancel", jobId(4)], env, 1)
    await refusalOf(["job", "cancel", unknown], env, 1)
    await refusalOf(["job", "purge-data", jobId(2)], env, 1)
    await jsonOf(["job", "purge-data", jobId(9)], env)
    await jsonOf(["job", "list"], env)
    expect(await changes(installation)).toEqual([])
  })

  it("is written in the transaction of the change: without the entry there is no change", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    for (const kid of ["own", "spare"]) await jsonOf(["signing-key", "add", kid, "--generate"], env)
    const before = await jsonOf(["job", "list"], env)
    await installation.refuseAuditEntries()
    for (const args of [
      ["project", "create", "acme"],
      ["key", "revoke", keyId(1)],
      ["switch", "off", "ai"],
      ["queue", "pause", "voice_turn"],
      ["job", "cancel", jobId(1)],
      ["job", "purge-data", jobId(4)],
      ["job", "retry", jobId(5)],
      ["signing-key", "drop", "spare"],
      ["retention", "run"],
    ]) {
      const { exit, stdout } = await runInProcess([...args, "--json"], env)
      expect({ args, exit, stdout }).toEqual({ args, exit: 1, stdout: "" })
    }
    const keys = await installation.use(Effect.flatMap(KeyDirectory, ({ listKeys }) => listKeys))
    expect(keys.find(({ id }) => id === keyId(1))).toMatchObject({ revokedAt: null })
    expect((await jsonOf(["project", "list"], env)).projects).toHaveLength(1)
    expect((await jsonOf(["switch", "status"], env)).switches.ai).toBe("on")
    expect((await jsonOf(["queue", "stats"], env)).paused_types).toEqual([])
    expect(await jsonOf(["job", "show", jobId(1)], env)).toMatchObject({ status: "queued" })
    expect(await jsonOf(["job", "show", jobId(4)], env)).toMatchObject({ data: "kept" })
    expect(await jsonOf(["job", "list"], env)).toEqual(before)
    const { keys: signing } = await jsonOf(["signing-key", "list"], env)
    expect(signing.map(({ kid }: { readonly kid: string }) => kid)).toEqual(["own", "spare"])
  })

  it("names the new job of a retry, and records a retry and the removal of a key once", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    await installation.use(Effect.flatMap(SecretStore, ({ getOrCreate }) => getOrCreate("signing", new Uint8Array(32))))
    await jsonOf(["signing-key", "add", "own", "--generate"], env)
    await jsonOf(["signing-key", "use", "own"], env)
    const { job_id: retried } = await jsonOf(["job", "retry", jobId(5)], env)
    expect(await jsonOf(["job", "retry", jobId(5)], env)).toMatchObject({ job_id: retried, replayed: true })
    // The generated key stands in the list, and by itself.
    await jsonOf(["signing-key", "drop", "k1"], env)
    expect((await changes(installation)).slice(0, 2)).toMatchObject([
      { action: "signing-key.drop", subject: "k1" },
      { action: "job.retry", subject: jobId(5), details: { retried_as: retried } },
    ])
    expect((await actions(installation)).filter((action) => action.startsWith("job.retry"))).toHaveLength(1)
  })

  it("continues after a page, and filters by time", async () => {
    await using installation = await open()
    const { env } = installation
    for (const name of ["ai", "audio", "images"]) await jsonOf(["switch", "on", name], env)
    const first = await jsonOf(["audit", "list", "--limit", "2"], env)
    expect(first.changes.map(({ subject }: Change) => subject)).toEqual(["images", "audio"])
    const second = await jsonOf(["audit", "list", "--limit", "2", "--after", String(first.next)], env)
    expect(second.changes.map(({ subject }: Change) => subject)).toEqual(["ai"])
    expect(second.next).toBeNull()
    expect(await changes(installation, "--to", "2000-01-01")).toEqual([])
    expect(await changes(installation, "--from", "2000-01-01")).toHaveLength(3)
    expect(await changes(installation, "--from", "2100-01-01")).toEqual([])
  })

  it("is pruned by the service, and by no command, whatever its environment", async () => {
    await using installation = await open()
    const { env } = installation
    await jsonOf(["switch", "on", "ai"], env)
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    const other = { ...env, KILN_AUDIT_RETENTION: "1s" }
    await jsonOf(["switch", "off", "ai"], other)
    await jsonOf(["retention", "run"], other)
    const kept = await actions(installation)
    expect(kept).toHaveLength(3)
    await installation.use(pruneAuditLog(0))
    expect(await actions(installation)).toEqual(kept)
    const oldest = Effect.flatMap(AuditLog, (log) =>
      log.list({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 }),
    ).pipe(
      Effect.map((listed) => listed.at(-1)?.action),
      Effect.delay(20),
      Effect.repeat({ while: (action) => action === "switch.on" }),
    )
    await installation.use(Effect.raceFirst(pruneAuditLog(1_000), oldest))
    expect(await actions(installation)).not.toContain("switch.on ai")
  })

  it("stays as it was written", async () => {
    await using installation = await open()
    const change = { actor: "a", origin: "b", action: "c", subject: null, details: { 'quo"ted': ["é", 1, null] } }
    const log = await installation.use(
      Effect.gen(function* () {
        const audit = yield* AuditLog
        yield* audit.append(change)
        return yield* audit.list({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 })
      }),
    )
    expect(log).toEqual([{ ...change, number: expect.any(Number), at: expect.any(Number) }])
  })
})

describe("kiln audit", () => {
  it("names the person behind sudo and the address of an SSH session, in printable characters", async () => {
    await using installation = await sqliteInstallation()
    const env = { ...installation.env, SUDO_USER: "alice\u001b[31m", SSH_CONNECTION: "10.0.0.7 51234 10.0.0.1 22" }
    await jsonOf(["switch", "on", "ai"], env)
    expect(await changes(installation)).toMatchObject([
      { actor: `${who.actor} (sudo by alice?[31m)`, origin: `${who.origin}, ssh from 10.0.0.7` },
    ])
    const { stdout } = await runInProcess(["audit", "list"], installation.env)
    expect(stdout).toMatch(
      /^TIME +WHO +FROM +ACTION +SUBJECT +DETAILS\n\S+Z +user .*sudo by alice\?\[31m\) +host .* +switch\.on +ai\n$/,
    )
    expect((await runInProcess(["audit", "list", "--to", "2000-01-01"], installation.env)).stdout).toBe(
      "no such changes\n",
    )
    expect(await refusalOf(["audit", "list", "--limit", "0"], installation.env, 2)).toContain("--limit must be")
  })
})
