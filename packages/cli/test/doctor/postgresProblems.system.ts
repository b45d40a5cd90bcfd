import { describe, expect, it } from "vitest"
import { installations } from "../support/installations.ts"
import { checkOf, diagnose, named, withSecrets } from "./diagnose.ts"
import { findAndMend, saidAbout } from "./planted/findAndMend.ts"
import { reasonsOfPostgres, remediesOfPostgres, unexplained } from "./planted/uncovered.ts"
import { postgresProblems, unsynced, urlOf } from "./planted/postgres.ts"
import { makeWell } from "./wellInstallation.ts"

const open = installations.find(([name]) => name === "Postgres")?.[1]
if (open === undefined) throw new Error("there is no installation on Postgres")

describe("kiln doctor on Postgres", () => {
  for (const problem of postgresProblems) {
    const ways = "carryOut" in problem ? [problem.carryOut].flat() : [undefined]
    for (const [n, way] of ways.entries())
      it(`finds ${problem.what}${way === undefined ? "" : `, and what it advises helps${n === 0 ? "" : ` (${n + 1})`}`}`, async () => {
        await using installation = await open()
        await makeWell(installation)
        expect.hasAssertions()
        await findAndMend(installation, problem, way)
      })
  }

  it("prints no remedy about the upkeep that is neither carried out here nor listed with a reason", ({ skip }) => {
    if (saidAbout.length < postgresProblems.length) skip("only some problems were planted")
    expect(unexplained(remediesOfPostgres(), saidAbout, reasonsOfPostgres)).toEqual({
      withoutReason: [],
      withNeedlessReason: [],
    })
  })

  it("finds nothing else to do in a well installation", async () => {
    await using installation = await open()
    await makeWell(installation)
    const diagnosis = await diagnose({ ...installation.env, ...withSecrets })
    expect(named(diagnosis, "problem", "warning")).toEqual(["upkeep"])
    expect(checkOf(diagnosis, "upkeep").seen).toMatch(unsynced)
    expect(checkOf(diagnosis, "machines").seen).toContain("processes on other machines need the same files")
  })

  it("still checks the machine and the address if the server does not respond, and says what to do", async () => {
    await using installation = await open()
    const url = new URL(urlOf(installation))
    url.port = "9"
    const diagnosis = await diagnose({ ...installation.env, DATABASE_URL: url.href, HOST: "0.0.0.0" })
    expect(checkOf(diagnosis, "database")).toEqual({
      status: "problem",
      seen: expect.stringContaining("no server is listening at this address"),
      remedy: "start the server, or correct DATABASE_URL, then run kiln doctor again",
    })
    expect(checkOf(diagnosis, "address").status).toBe("problem")
  })
})
