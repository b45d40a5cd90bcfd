import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { sqliteInstallation } from "../support/installations.ts"
import { diagnose, named, withSecrets } from "./diagnose.ts"
import { copiesProblems } from "./planted/copies.ts"
import { findAndMend, saidAbout } from "./planted/findAndMend.ts"
import { filesProblems } from "./planted/files.ts"
import { machineProblems } from "./planted/machine.ts"
import { queueProblems } from "./planted/queue.ts"
import { recordsProblems } from "./planted/records.ts"
import { settingsProblems } from "./planted/settings.ts"
import { reasonsOfDoctor, remediesOfDoctor, unexplained } from "./planted/uncovered.ts"
import { createJob, database } from "./planted/support.ts"
import { makeWell } from "./wellInstallation.ts"

const isRoot = process.getuid?.() === 0

const planted = [
  ...settingsProblems,
  ...recordsProblems,
  ...copiesProblems,
  ...queueProblems,
  ...machineProblems,
  ...filesProblems,
]

describe("kiln doctor on SQLite", () => {
  it("finds nothing to do in a well installation", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    const diagnosis = await diagnose({ ...installation.env, ...withSecrets }, "--strict")
    // The disk of the machine that runs the test is not the test's.
    expect(named(diagnosis, "problem", "warning").filter((name) => !["disk", "filesystem"].includes(name))).toEqual([])
    const page = readFileSync(new URL("../../../../docs/guides/command-line.md", import.meta.url), "utf8")
    const documented = /^\| Check \| Finds \|\n([^]*?)\n\n/m.exec(page)?.[1] ?? ""
    for (const { name } of diagnosis.checks) expect(documented).toContain(`\`${name}\``)
  })

  for (const problem of planted) {
    const ways = "carryOut" in problem ? [problem.carryOut].flat() : [undefined]
    for (const [n, way] of ways.entries())
      it(`finds ${problem.what}${way === undefined ? "" : `, and what it advises helps${n === 0 ? "" : ` (${n + 1})`}`}`, async ({
        skip,
      }) => {
        if (problem.needsRoot === true && !isRoot) skip("only root can give a file to another user")
        await using installation = await sqliteInstallation()
        await makeWell(installation)
        expect.hasAssertions()
        await findAndMend(installation, problem, way)
      })
  }

  it("prints no remedy that is neither carried out here nor listed with a reason", ({ skip }) => {
    if (saidAbout.length < planted.length) skip("only some problems were planted")
    expect(unexplained(remediesOfDoctor(), saidAbout, reasonsOfDoctor)).toEqual({
      withoutReason: [],
      withNeedlessReason: [],
    })
  })

  it("changes nothing, whatever it finds", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    await installation.use(Effect.asVoid(createJob()))
    const path = database(installation)
    const before = statSync(path)
    await diagnose(installation.env)
    expect({ ...statSync(path), atimeMs: 0, atime: 0 }).toEqual({ ...before, atimeMs: 0, atime: 0 })
    mkdirSync(join(installation.directory, "elsewhere"))
    await diagnose({ KILN_DATA_DIR: join(installation.directory, "elsewhere") })
    expect(existsSync(join(installation.directory, "elsewhere/kiln.db"))).toBe(false)
  })

  it("is strict on request, and limits the files that it verifies", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    const env = { ...installation.env, KILN_CONCURENCY: "4" }
    expect((await diagnose(env)).ok).toBe(true)
    expect((await diagnose(env, "--strict")).ok).toBe(false)
  })
})
