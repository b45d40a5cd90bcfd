import { startCluster, withClient } from "@kiln/postgres-lab"
import { run, serve, temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { describeWith } from "../faults/support/needs.ts"
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
    const env = { KILN_DATA_DIR: disk.path }
    await using server = await serve(env)
    const free = fill(disk.path)
    try {
      const { exit, stdout } = await run(["doctor", "--json"], env)
      expect(exit).toBe(1)
      const diagnosis = JSON.parse(stdout) as Diagnosis
      expect(checkOf(diagnosis, "disk")).toEqual({
        status: "problem",
        seen: expect.stringMatching(/a disk is almost full\n.*: 0 MB of 24 MB are free/),
        remedy: expect.stringContaining("kiln retention run removes what is past its retention, also on a full disk"),
      })
      expect(checkOf(diagnosis, "filesystem")).toMatchObject({
        status: "warning",
        seen: expect.stringContaining("tmpfs, so everything is lost at the next restart"),
      })
      for (const name of ["database", "schema", "integrity", "queue", "blobs"])
        expect(checkOf(diagnosis, name).status).toBe("ok")
    } finally {
      free()
    }
    expect((await fetch(`${server.listening.url}/healthz`)).status).toBe(200)
  })
})
