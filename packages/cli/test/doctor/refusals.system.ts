import { copyFileSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { run, serve } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
import { sqliteInstallation } from "../support/installations.ts"
import { runInProcess } from "../support/runInProcess.ts"
import { runPrinted } from "./planted/acts.ts"
import { joinBlobs } from "./planted/support.ts"
import { makeWell } from "./wellInstallation.ts"

type Environment = Readonly<Record<string, string>>

/** Starts a service that must be refused, runs the command that the refusal names, and starts it again. */
const followRefusal = async (env: Environment, named: RegExp): Promise<void> => {
  const { exit, stderr } = await run(["serve"], { ...env, PORT: "0" })
  expect(exit).toBe(1)
  const [command = ""] = named.exec(stderr) ?? []
  expect(command, stderr).not.toBe("")
  await runPrinted(command, env)
  await using server = await serve(env)
  expect((await fetch(`${server.listening.url}/readyz`)).status).toBe(200)
}

describe("a start that is refused names a command after which it works", () => {
  it.each([/kiln adopt --moved/, /kiln adopt --restored/])("on a copy of the database: %s", async (named) => {
    expect.hasAssertions()
    await using installation = await sqliteInstallation()
    const { directory, env } = installation
    await makeWell(installation)
    expect(await runInProcess(["blobs", "sweep", "--dry-run"], env)).toMatchObject({ exit: 0 })
    copyFileSync(join(directory, "kiln.db"), join(directory, "copy"))
    renameSync(join(directory, "copy"), join(directory, "kiln.db"))
    await followRefusal(env, named)
  })

  it("on files that are lost: kiln blobs claim", async () => {
    expect.hasAssertions()
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    await joinBlobs(installation)
    rmSync(join(installation.directory, "blobs"), { recursive: true })
    await followRefusal(installation.env, /kiln blobs claim/)
  })
})

it("a command without a database names a flag with which it works", async () => {
  await using installation = await sqliteInstallation()
  const env = { KILN_DATA_DIR: join(installation.directory, "new") }
  const { exit, stderr } = await runInProcess(["key", "list"], env)
  expect({ exit, stderr }).toEqual({ exit: 1, stderr: expect.stringContaining("there is no database") })
  const [flag = ""] = /(?<=or add )--init/.exec(stderr) ?? []
  expect(await runInProcess(["key", "list", flag], env)).toMatchObject({ exit: 0 })
})
