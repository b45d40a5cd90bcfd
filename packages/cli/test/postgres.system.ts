import { describe, expect, it } from "vitest"
import { freshDatabase, startCluster, transactionPooler, withClient } from "@kiln/postgres-lab"
import { Api } from "./support/Api.ts"
import { doctorProblems } from "./support/doctorProblems.ts"
import { KilnProcess, run, runJson, serve, temporaryDirectory } from "@kiln/service-lab"

const canary = "s3cret-cänary"

/** The URL with other parts. */
const changed = (url: string, parts: Partial<Pick<URL, "username" | "password" | "pathname">>): string =>
  Object.assign(new URL(url), parts).href

describe("DATABASE_URL", () => {
  it("names the database of an API, a worker and the commands, in its schema", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    const env = { KILN_DATA_DIR: data.path, DATABASE_URL: database.url, KILN_DATABASE_SCHEMA: "jobs_2" }
    await using api = await serve({ ...env, KILN_ROLE: "api", KILN_DATABASE_POOL: "3" })
    const client = new Api(api.listening.url, api.listening.first_key?.key ?? "")
    const id = await client.createSpeech("Made by one process, spoken by another.")
    expect(await client.job(id)).toMatchObject({ status: "queued" })
    await using worker = new KilnProcess(["serve"], { ...env, KILN_ROLE: "worker", KILN_DATABASE_NOTIFICATIONS: "off" })
    const job = await client.finished(id)
    expect(job.status).toBe("done")
    expect((await fetch(job.output?.audio_url ?? "")).status).toBe(200)

    expect(await runJson(["project", "list"], env)).toMatchObject({ projects: [{ name: "default" }] })
    const other = await run(["project", "list"], { ...env, KILN_DATABASE_SCHEMA: "other" })
    expect({ ...other, stderr: /there is no kiln installation in .*, schema other:/.test(other.stderr) }).toEqual({
      exit: 1,
      stdout: "",
      stderr: true,
    })
    expect(doctorProblems((await run(["doctor", "--json"], env)).stdout)).toEqual([])
    for (const process of [api, worker]) process.kill("SIGTERM")
    expect([(await api.ended()).exit, (await worker.ended()).exit]).toEqual([0, 0])
  })

  it("may have a pooler in transaction mode, for a server and for commands", async () => {
    using data = temporaryDirectory()
    await using database = await freshDatabase()
    await using pooler = await transactionPooler(database.url, 3)
    const env = { KILN_DATA_DIR: data.path, DATABASE_URL: pooler.url, KILN_DATABASE_POOLER: "transaction" }
    await using server = await serve(env)
    const api = new Api(server.listening.url, server.listening.first_key?.key ?? "")
    expect((await api.finished(await api.createSpeech("hello"))).status).toBe("done")
    expect(doctorProblems((await run(["doctor", "--json"], env)).stdout)).toEqual([])
    expect(pooler.changes()).toBeGreaterThan(0)
  })

  it("is migrated in advance by kiln migrate, which first lists what it would do", async () => {
    await using database = await freshDatabase()
    const env = { DATABASE_URL: database.url }
    const dry = await runJson(["migrate", "--dry-run"], env)
    expect(dry).toMatchObject({
      applied_now: [],
      applied: [],
      pending: expect.arrayContaining([expect.objectContaining({ name: "0001Initial" })]),
    })
    const { applied_now: names } = await runJson(["migrate"], env)
    expect(names).toEqual(dry.pending.map(({ name }: { readonly name: string }) => name))
    expect(await runJson(["migrate"], env)).toMatchObject({ applied_now: [], pending: [] })
  })

  it("explains why it cannot be used, in one sentence without its password", async () => {
    await using cluster = await startCluster()
    const wrong = changed(cluster.url, { password: canary })
    const away = changed("postgres://u@127.0.0.1:1/x", { password: canary })
    const cases: ReadonlyArray<readonly [url: string, reason: RegExp]> = [
      [
        wrong,
        /^kiln: cannot open the Postgres database kiln at 127\.0\.0\.1:\d+: the server rejects the user or the password/,
      ],
      [
        changed(cluster.url, { pathname: "/none" }),
        /Postgres database none at .*: the server has no database of that name$/,
      ],
      [away, /^kiln: cannot open the Postgres database x at 127\.0\.0\.1:1: no server is listening at this address$/],
      [away.replace("127.0.0.1", "no.such.host.invalid"), /: the host name (is unknown|cannot be resolved)$/],
    ]
    const { password } = new URL(cluster.url)
    const explained = async (url: string, args: ReadonlyArray<string>, reason: RegExp) => {
      using data = temporaryDirectory()
      const ended = await run([...args, "--json"], { DATABASE_URL: url, KILN_DATA_DIR: data.path, PORT: "0" })
      expect({ args, exit: ended.exit, stdout: ended.stdout }).toEqual({ args, exit: 1, stdout: "" })
      expect(ended.stderr.trimEnd()).toMatch(reason)
      for (const secret of [canary, encodeURIComponent(canary), password]) expect(ended.stderr).not.toContain(secret)
    }
    for (const [url, reason] of cases) await explained(url, ["project", "list"], reason)
    for (const args of [["serve"], ["migrate"]]) await explained(wrong, args, /rejects the user or the password/)
    const doctor = await run(["doctor", "--json"], { DATABASE_URL: wrong })
    expect([doctor.exit, doctor.stdout + doctor.stderr]).toEqual([1, expect.stringContaining("rejects the user")])
    expect(doctor.stdout + doctor.stderr).not.toContain(encodeURIComponent(canary))
  })

  it("of a user without permissions is explained too, before and after another user has migrated", async () => {
    using data = temporaryDirectory()
    await using cluster = await startCluster()
    // The administrator's: to others it gives nothing but a connection.
    await using database = await freshDatabase({ server: cluster.adminUrl })
    const poor = changed(cluster.url, { pathname: new URL(database.url).pathname })
    const denied = async (args: ReadonlyArray<string>) => {
      const { exit, stderr } = await run(args, { DATABASE_URL: poor, KILN_DATA_DIR: data.path, PORT: "0" })
      expect({ args, exit }).toEqual({ args, exit: 1 })
      expect(stderr).toMatch(/^kiln: cannot open the Postgres database .*: this user lacks permissions: .*\n$/)
    }
    for (const args of [["serve"], ["migrate"]]) await denied(args)
    await runJson(["migrate"], { DATABASE_URL: database.url })
    for (const args of [["serve"], ["project", "list"]]) await denied(args)

    const refused = async (url: string) =>
      (await run(["project", "create", "two"], { DATABASE_URL: url, KILN_DATA_DIR: data.path })).stderr
    await withClient(database.url, (client) =>
      client.query("GRANT USAGE ON SCHEMA kiln TO kiln; GRANT SELECT ON ALL TABLES IN SCHEMA kiln TO kiln"),
    )
    expect(await refused(poor)).toBe(
      "kiln: the database refuses KeyDirectory.createProject: permission denied for table projects: " +
        "let the schema's owner grant the rights listed in docs/guides/postgres.md\n",
    )
    await withClient(database.url, (client) => client.query("ALTER ROLE kiln SET default_transaction_read_only = on"))
    expect(await refused(poor)).toMatch(/read-only transaction: kiln doctor --only upkeep says how to allow writes\n$/)
  })

  it("that goes away under a server leaves no password in its log", async () => {
    using data = temporaryDirectory()
    await using cluster = await startCluster()
    const { password } = new URL(cluster.url)
    expect(password.length).toBeGreaterThan(5)
    await using server = await serve({ DATABASE_URL: cluster.url, KILN_DATA_DIR: data.path })
    const ready = async () => (await fetch(`${server.listening.url}/readyz`)).status
    expect(await ready()).toBe(200)
    await cluster.stop("immediate")
    await expect.poll(ready, { timeout: 15_000 }).toBe(503)
    const refused = await run(["project", "list"], { DATABASE_URL: cluster.url, KILN_DATA_DIR: data.path })
    expect([refused.exit, refused.stderr]).toEqual([
      1,
      expect.stringContaining("no server is listening at this address"),
    ])
    await cluster.start()
    await expect.poll(ready, { timeout: 15_000 }).toBe(200)
    expect(server.stderr).not.toContain(password)
    expect(server.stderr).not.toContain(decodeURIComponent(password))
  })
})
