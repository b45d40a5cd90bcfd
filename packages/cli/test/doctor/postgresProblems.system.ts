import { fixtures } from "@kiln/conformance"
import { JobStore, Switchboard } from "@kiln/core/ports"
import { withClient } from "@kiln/postgres-lab"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { type Installation, installations } from "../support/installations.ts"
import { checkOf, diagnose, named, withSecrets } from "./diagnose.ts"
import { makeWell } from "./wellInstallation.ts"

const open = installations.find(([name]) => name === "Postgres")?.[1]
if (open === undefined) throw new Error("there is no installation on Postgres")

const urlOf = ({ env }: Installation): string => env["DATABASE_URL"] ?? ""
const runSql = (installation: Installation, sql: string) =>
  withClient(urlOf(installation), async (client) => void (await client.query(sql)))

interface Planted {
  readonly what: string
  readonly plant: (installation: Installation) => Promise<unknown>
  readonly check: string
  readonly status: "warning" | "problem"
  readonly seen: RegExp
  readonly remedy: RegExp
}

const planted: ReadonlyArray<Planted> = [
  {
    // The server of the tests is faster without.
    what: "a server that does not sync its files",
    plant: () => Promise.resolve(),
    check: "upkeep",
    status: "problem",
    seen: /fsync is off, so a crash of the server's machine can destroy the database/,
    remedy: /ALTER SYSTEM SET fsync = on/,
  },
  {
    what: "a table without autovacuum",
    plant: (installation) => runSql(installation, "ALTER TABLE kiln.jobs SET (autovacuum_enabled = false)"),
    check: "upkeep",
    status: "problem",
    seen: /autovacuum skips the table "kiln"\.jobs/,
    remedy: /ALTER TABLE "kiln"\.jobs RESET \(autovacuum_enabled\)/,
  },
  {
    what: "a server whose clock is ahead",
    plant: (installation) =>
      runSql(
        installation,
        `CREATE OR REPLACE FUNCTION kiln.store_time() RETURNS bigint LANGUAGE sql VOLATILE AS
          'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 180000'`,
      ),
    check: "clock",
    status: "problem",
    seen: /clock is 3 min behind the database server's: signed URLs expire too late/,
    remedy: /timedatectl set-ntp true/,
  },
  {
    what: "a schema that was never migrated",
    plant: (installation) => runSql(installation, "DROP SCHEMA kiln CASCADE"),
    check: "database",
    status: "problem",
    seen: /has no kiln schema yet/,
    remedy: /kiln migrate/,
  },
  {
    what: "jobs of a paused type",
    plant: (installation) =>
      installation.use(
        Effect.gen(function* () {
          yield* (yield* JobStore).createJobs([fixtures.newJob(1)])
          yield* (yield* Switchboard).pauseKind("speech_synthesis", true)
        }),
      ),
    check: "queue",
    status: "warning",
    seen: /1 job of type speech_synthesis \(sandbox\) held back: the type is paused/,
    remedy: /kiln queue resume speech_synthesis/,
  },
]

describe("kiln doctor on Postgres", () => {
  for (const { check, plant, remedy, seen, status, what } of planted)
    it(`finds ${what}`, async () => {
      await using installation = await open()
      await makeWell(installation)
      await plant(installation)
      const found = checkOf(await diagnose({ ...installation.env, ...withSecrets }), check)
      expect(found).toEqual({ status, seen: expect.stringMatching(seen), remedy: expect.stringMatching(remedy) })
    })

  it("finds nothing else to do in a well installation", async () => {
    await using installation = await open()
    await makeWell(installation)
    const diagnosis = await diagnose({ ...installation.env, ...withSecrets })
    expect(named(diagnosis, "problem", "warning")).toEqual(["upkeep"])
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
