import { createHash } from "node:crypto"
import { fixtures } from "@kiln/conformance"
import { type KeyId, parseApiKey, type ProjectId } from "@kiln/core/domain"
import { IdGenerator, JobStore, KeyDirectory } from "@kiln/core/ports"
import { createKey } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { type Installation, installations, sqliteInstallation } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
const unknownId = "key_00000000000000000000000000"
const never = `kiln_test_${"0".repeat(43)}`

const makeKey = (installation: Installation, options: Parameters<typeof createKey>[0] = {}) =>
  installation.use(Effect.provide(createKey(options), IdGenerator.layer))

/** Creates queued jobs with the key. */
const createJobs = (installation: Installation, { id: keyId, projectId }: { id: KeyId; projectId: ProjectId }) =>
  installation.use(
    Effect.flatMap(JobStore, (jobs) => jobs.createJobs([1, 2].map((n) => fixtures.newJob(n, { projectId, keyId })))),
  )

/** Whether a server would find the key of this secret. */
const isKnown = (installation: Installation, secret: string): Promise<boolean> =>
  installation.use(
    Effect.flatMap(KeyDirectory, (keys) =>
      Effect.map(keys.findKey(createHash("sha256").update(secret).digest("hex")), (found) => found !== undefined),
    ),
  )

describe.each(installations)("kiln key on %s", (_name, open) => {
  it("rotate adds a secret to the same record, and the old one works for 24 hours", async () => {
    await using installation = await open()
    const { env } = installation
    const key = await makeKey(installation, { mode: "live" })
    const other = await makeKey(installation)
    const rotated = await jsonOf(["key", "rotate", key.id], env)
    expect(rotated).toEqual({ key: expect.any(String), key_id: key.id, old_secret_expires_at: time })
    expect(parseApiKey(rotated.key)).toEqual({ mode: "live" })
    const remainingMs = Date.parse(rotated.old_secret_expires_at) - Date.now()
    expect(remainingMs).toBeGreaterThan(23.9 * 3_600_000)
    expect(remainingMs).toBeLessThan(24.1 * 3_600_000)
    expect(await isKnown(installation, key.secret)).toBe(true)
    expect(await isKnown(installation, rotated.key)).toBe(true)
    expect((await jsonOf(["key", "list"], env)).keys).toHaveLength(2)
    expect(await isKnown(installation, other.secret)).toBe(true)
  })

  it("limit shows and changes the rate limits of one key", async () => {
    await using installation = await open()
    const { env } = installation
    const project = (await makeKey(installation)).projectId
    const create = ["key", "create", "--project", project, "--mode", "test", "--scope", "audio.create"]
    const made = await jsonOf([...create, "--limit", "create=120/min:60", "--limit", "read=off"], env)
    const limits = { create: { per_minute: 120, burst: 60 }, read: { per_minute: 0, burst: 0 } }
    expect(made).toMatchObject({ limits })
    const { key_id } = made
    expect(await jsonOf(["key", "limit", key_id], env)).toEqual({ key_id, limits })
    expect((await jsonOf(["key", "list"], env)).keys.map((key: { limits: object }) => key.limits)).toEqual([{}, limits])
    expect((await runInProcess(["key", "list"], env)).stdout).toContain("create=120/min:60 read=off")
    const changed = { key_id, limits: { create: limits.create, delete: { per_minute: 7, burst: 7 } } }
    const change = ["key", "limit", key_id, "--limit", "read=default", "--limit", "delete=7/min"]
    expect(await jsonOf(change, env)).toEqual(changed)
    expect((await jsonOf(["audit", "list"], env)).changes[0]).toMatchObject({
      action: "key.limit",
      subject: key_id,
      details: { limits: changed.limits },
    })
    const { stdout } = await runInProcess(["key", "limit", key_id, "--clear"], env)
    expect(stdout).toBe(`${key_id} has the limits of the installation\n`)
    expect(await jsonOf(["key", "limit", key_id], env)).toEqual({ key_id, limits: {} })
    for (const limit of [
      "create",
      "create=",
      "create=1",
      "create=1/h",
      "create=1/min:0",
      "create=1/min:x",
      "writes=1/min",
    ])
      expect(await refusalOf(["key", "limit", key_id, "--limit", limit], env, 2)).toContain("--limit")
    expect(await refusalOf(["key", "limit", key_id, "--clear", "--limit", "read=off"], env, 2)).toContain(
      "no other flag",
    )
    expect(await refusalOf(["key", "limit", unknownId], env, 1)).toContain(`there is no key ${unknownId}`)
  })

  it("rotate with --overlap 0 ends the old secret immediately", async () => {
    await using installation = await open()
    const key = await makeKey(installation)
    const rotated = await jsonOf(["key", "rotate", key.id, "--overlap", "0"], installation.env)
    expect(await isKnown(installation, key.secret)).toBe(false)
    expect(await isKnown(installation, rotated.key)).toBe(true)
  })

  it("rotate refuses unknown, revoked and expired keys", async () => {
    await using installation = await open()
    const { env } = installation
    const [revoked, expired] = [await makeKey(installation), await makeKey(installation, { expiresAt: 1 })]
    await jsonOf(["key", "revoke", revoked.id], env)
    expect(await refusalOf(["key", "rotate", revoked.id], env, 1)).toContain("is revoked")
    expect(await refusalOf(["key", "rotate", expired.id], env, 1)).toContain("has expired")
    for (const id of [unknownId, "nonsense"])
      expect(await refusalOf(["key", "rotate", id], env, 1)).toContain(`there is no key ${id}`)
    for (const overlap of ["soon", "-1h", "00"])
      expect(await refusalOf(["key", "rotate", revoked.id, `--overlap=${overlap}`], env, 2)).toContain("--overlap must")
  })

  it("identify says whose a key is and whether it works", async () => {
    await using installation = await open()
    const { env } = installation
    const key = await makeKey(installation)
    const identify = async (secret: string) => {
      const { keys, unknown, ...rest } = await jsonOf(["key", "identify"], env, `  ${secret}\n`)
      expect(rest).toEqual(keys[0])
      expect(unknown).toBe(0)
      expect(keys).toHaveLength(1)
      return keys[0]
    }
    expect(await identify(key.secret)).toMatchObject({
      key_id: key.id,
      project_id: key.projectId,
      project_name: key.projectId,
      status: "active",
      secret_status: "active",
      secret_expires_at: null,
    })
    const rotated = await jsonOf(["key", "rotate", key.id, "--overlap", "1h"], env)
    expect(await identify(key.secret)).toMatchObject({ secret_status: "active", secret_expires_at: time })
    expect(await identify(rotated.key)).toMatchObject({ key_id: key.id, secret_expires_at: null })
    await jsonOf(["key", "rotate", key.id, "--overlap", "0"], env)
    expect(await identify(key.secret)).toMatchObject({ key_id: key.id, status: "active", secret_status: "rotated" })
    await jsonOf(["key", "revoke", key.id], env)
    expect(await identify(rotated.key)).toMatchObject({ status: "revoked", secret_status: "revoked" })
    const expired = await makeKey(installation, { expiresAt: 1 })
    expect(await identify(expired.secret)).toMatchObject({ key_id: expired.id, secret_status: "expired" })
  })
})

describe("kiln key identify", () => {
  it("takes the key from standard input only, and never repeats it", async () => {
    await using installation = await sqliteInstallation()
    const { env } = installation
    const key = await makeKey(installation)
    const person = await runInProcess(["key", "identify"], env, key.secret)
    expect(person.stdout).toMatch(
      /^This is the test key key_\w+ of project prj_\w+, with audio\.create and images\.create, created \S+, never used\.\n/,
    )
    expect(person.stdout).toContain(`IT WORKS. If it leaked, end it now: kiln key rotate ${key.id} --overlap 0`)
    expect(person.stdout + person.stderr).not.toContain(key.secret)
    expect((await runInProcess(["key", "identify", key.secret], env)).exit).toBe(2)
    const elsewhere = await sqliteInstallation()
    expect(await refusalOf(["key", "identify"], elsewhere.env, 1, key.secret)).toBe(
      "kiln: no key of this installation has or had this secret\n",
    )
    await elsewhere[Symbol.asyncDispose]()
  })

  it("finds every key in a text, and shows what each was used for", async () => {
    await using installation = await sqliteInstallation()
    const { env } = installation
    const [used, idle] = [await makeKey(installation), await makeKey(installation)]
    await using elsewhere = await sqliteInstallation()
    const foreign = await makeKey(elsewhere)
    const text = `{"a":"Bearer%20${used.secret}"}\\n${idle.secret}\\n${used.secret}\n${foreign.secret}x ${never}000000`
    await createJobs(installation, used)
    const { keys, unknown } = await jsonOf(["key", "identify"], env, text)
    expect(unknown).toBe(1)
    expect(keys.map(({ key_id }: { key_id: string }) => key_id)).toEqual([used.id, idle.id])
    expect(keys[0]).toMatchObject({
      jobs: [{ type: "speech_synthesis", status: "queued", count: 2 }],
      first_job_at: time,
      last_job_at: time,
      charged: [],
    })
    expect(keys[1]).toMatchObject({ jobs: [], first_job_at: null })
    const person = await runInProcess(["key", "identify"], env, text)
    expect(person.stdout).toContain("It created 2 speech_synthesis queued; the first at ")
    expect(person.stdout).toContain("1 more in this text is no key of this installation.")
    for (const { secret } of [used, idle, foreign]) expect(person.stdout + person.stderr).not.toContain(secret)
  })

  it.each([[""], [" \n"]])("refuses the empty input %j, exit code 2", async (input) => {
    await using installation = await sqliteInstallation()
    expect(await refusalOf(["key", "identify"], installation.env, 2, input)).toContain("standard input is empty")
  })

  it.each([["nonsense"], [never], [`${never}000000`]])(
    "refuses %j, exit code 2, without repeating it",
    async (input) => {
      await using installation = await sqliteInstallation()
      const message = await refusalOf(["key", "identify"], installation.env, 2, input)
      expect(message).toContain("standard input has no API key")
      expect(message).not.toContain(input)
    },
  )
})
