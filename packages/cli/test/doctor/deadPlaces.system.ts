import { startCluster, withClient } from "@kiln/postgres-lab"
import { cpSync, statfsSync } from "node:fs"
import { run, runJson, serve, temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { describeWith } from "../faults/support/needs.ts"
import { Api } from "../support/Api.ts"
import { fill, smallDisk } from "../faults/support/Mount.ts"
import { checkOf, diagnose, type Diagnosis } from "./diagnose.ts"

it("ends although the database server does not respond, and although a table is locked", async () => {
  await using cluster = await startCluster()
  using data = temporaryDirectory()
  const env = { DATABASE_URL: cluster.url, KILN_DATA_DIR: data.path }
  expect((await run(["migrate"], env)).exit).toBe(0)
  await withClient(cluster.url, async (client) => {
    await client.query("BEGIN; LOCK TABLE kiln.queue IN ACCESS EXCLUSIVE MODE")
    const locked = await diagnose(env)
    expect(checkOf(locked, "queue")).toMatchObject({
      status: "problem",
      seen: expect.stringMatching(/lock|in time|did not finish/),
    })
    expect(checkOf(locked, "keys").status).toBe("warning")
  })
  const pid = cluster.pid()
  if (pid === undefined) throw new Error("the server does not run")
  process.kill(pid, "SIGSTOP")
  try {
    const begun = performance.now()
    const silent = await diagnose(env)
    expect(checkOf(silent, "database")).toMatchObject({
      status: "problem",
      seen: expect.stringMatching(/does not respond in time|did not finish within/),
    })
    expect(checkOf(silent, "disk").status).not.toBe("problem")
    expect(performance.now() - begun).toBeLessThan(90_000)
  } finally {
    process.kill(pid, "SIGCONT")
  }
})

describeWith("mounts", "kiln doctor on a full disk", () => {
  it("says so, through the real command, with the installation's server still running", async () => {
    using disk = smallDisk(24)
    const env = { KILN_DATA_DIR: disk.path, KILN_FIRST_KEY: "print" }
    await using server = await serve(env)
    const { key = "" } = server.listening.first_key ?? {}
    await new Api(server.listening.url, key).finished(
      await new Api(server.listening.url, key).createSpeech("It takes room.".repeat(100)),
    )
    const free = fill(disk.path)
    try {
      const { exit, stdout } = await run(["doctor", "--json"], env)
      expect(exit).toBe(1)
      const diagnosis = JSON.parse(stdout) as Diagnosis
      expect(checkOf(diagnosis, "disk")).toEqual({
        status: "problem",
        seen: expect.stringMatching(/a disk is almost full\n.*: 0 MB of 24 MB are free/),
        remedy: expect.stringMatching(
          /kiln retention run removes what is past its retention, .*a shorter KILN_DATA_RETENTION, once every kiln serve is restarted/,
        ),
      })
      expect(checkOf(diagnosis, "filesystem")).toMatchObject({
        status: "warning",
        seen: expect.stringContaining("tmpfs, so everything is lost at the next restart"),
      })
      for (const name of ["database", "schema", "integrity", "queue", "blobs"])
        expect(checkOf(diagnosis, name).status).toBe("ok")
      // What the remedy says, on the disk that is still full.
      const runs = async () => runJson(["retention", "run"], env)
      expect(await runJson(["retention", "run", "--dry-run"], env)).toMatchObject({ expired_data: 0 })
      expect(await runs()).toMatchObject({ dry_run: false, expired_data: 0 })
      const before = statfsSync(disk.path).bavail
      server.kill("SIGTERM")
      expect((await server.ended()).exit).toBe(0)
      Object.assign(env, { KILN_DATA_RETENTION: "1s" })
      await using again = await serve(env)
      await runs()
      await expect.poll(() => statfsSync(disk.path).bavail, { timeout: 60_000 }).toBeGreaterThan(before)
      expect((await fetch(`${again.listening.url}/healthz`)).status).toBe(200)
    } finally {
      free()
    }
  })

  it("is left by the way that the doctor shows: to another disk, and with kiln adopt --moved", async () => {
    using disk = smallDisk(24)
    using other = temporaryDirectory()
    const env = { KILN_DATA_DIR: disk.path }
    {
      await using server = await serve(env)
      server.kill("SIGTERM")
      await server.ended()
    }
    const { stdout } = await run(["doctor", "--json", "--only", "filesystem"], env)
    const { remedy, seen } = checkOf(JSON.parse(stdout) as Diagnosis, "filesystem")
    expect(seen).toContain("tmpfs")
    const [, command = ""] =
      /^stop kiln, copy the directory to a disk, set KILN_DATA_DIR to it, and run kiln (adopt --moved)$/.exec(remedy) ??
      []
    cpSync(disk.path, other.path, { recursive: true })
    const moved = { KILN_DATA_DIR: other.path }
    expect((await run(command.split(" "), moved)).exit).toBe(0)
    await using server = await serve(moved)
    expect((await fetch(`${server.listening.url}/readyz`)).status).toBe(200)
    expect(server.stderr).not.toContain("is a copy")
  })
})
