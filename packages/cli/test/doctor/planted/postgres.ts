import { join } from "node:path"
import { fixtures } from "@kiln/conformance"
import { JobStore, Switchboard } from "@kiln/core/ports"
import { withClient } from "@kiln/postgres-lab"
import * as Effect from "effect/Effect"
import type { Installation } from "../../support/installations.ts"
import { command, inTurn, printedIn, runPrinted, set, start } from "./acts.ts"
import type { Act, Planted } from "./Planted.ts"

export const urlOf = ({ env }: Pick<Installation, "env">): string => env["DATABASE_URL"] ?? ""
const runSql = (installation: Installation, text: string) =>
  withClient(urlOf(installation), async (client) => void (await client.query(text)))

/** Runs the printed statements as the owner of the database. */
const sql =
  (pattern: RegExp): Act =>
  async (scene) => {
    for (const statement of printedIn(scene, pattern).split("; ")) await runSql(scene.installation, statement)
  }

/** Creates a role without rights. It goes with the server. */
const roleOf = async (installation: Installation): Promise<URL> => {
  const [url, password] = [new URL(urlOf(installation)), crypto.randomUUID()]
  Object.assign(url, { username: `reader_${crypto.randomUUID().slice(0, 8)}`, password })
  await runSql(installation, `CREATE ROLE ${url.username} LOGIN PASSWORD '${password}'`)
  return url
}

/** What a well installation has on the server of the tests, and nothing else. */
export const unsynced = /^the database needs attention\nfsync is off[^\n]*\nfull_page_writes is off[^\n]*$/

/** Gives a role what docs/guides/postgres.md lists for a service. */
const grantRights = (installation: Installation, role: string): Promise<void> => {
  const rights = ["SELECT, INSERT, UPDATE, DELETE ON ALL TABLES", "USAGE ON ALL SEQUENCES", "EXECUTE ON ALL FUNCTIONS"]
  return runSql(
    installation,
    `GRANT USAGE ON SCHEMA kiln TO ${role}; ${rights.map((right) => `GRANT ${right} IN SCHEMA kiln TO ${role}`).join("; ")}`,
  )
}

/** Uses the role of the service, which owns the schema. */
const asOwner: Act = async ({ installation }) => ({ DATABASE_URL: urlOf(installation) })

export const postgresProblems: ReadonlyArray<Planted> = [
  {
    // The server of the tests is faster without.
    what: "a server that does not sync its files",
    plant: () => undefined,
    check: "upkeep",
    status: "problem",
    seen: /fsync is off, so a crash of the server's machine can destroy the database/,
    remedy: /ALTER SYSTEM SET fsync = on/,
    notCarriedOut: "the server of the tests sets it on its command line, which is stronger",
  },
  {
    what: "a table without autovacuum",
    plant: async (installation) => runSql(installation, "ALTER TABLE kiln.jobs SET (autovacuum_enabled = false)"),
    check: "upkeep",
    status: "problem",
    seen: /autovacuum skips the table "kiln"\.jobs/,
    remedy: /ALTER TABLE "kiln"\.jobs RESET \(autovacuum_enabled\)/,
    carryOut: sql(/ALTER TABLE .*/),
    leaves: unsynced,
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
    notCarriedOut: "a test does not set the clocks of machines",
  },
  {
    what: "a schema that was never migrated",
    plant: async (installation) => runSql(installation, "DROP SCHEMA kiln CASCADE"),
    check: "database",
    status: "problem",
    seen: /has no kiln schema yet/,
    remedy: /kiln migrate --init/,
    carryOut: [
      command(/kiln migrate --init/),
      // The files of the lost database are still there.
      async (scene) => {
        const changes = { KILN_BLOBS: `file:${join(scene.installation.directory, "new")}` }
        await inTurn(set(changes), start(changes))(scene)
      },
    ],
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
    carryOut: command(/kiln queue resume .*/),
  },
  {
    what: "an index that was dropped by hand",
    plant: async (installation) => runSql(installation, "DROP INDEX kiln.uploads_sweep"),
    check: "schema",
    status: "problem",
    seen: /index uploads_sweep is missing/,
    remedy: /KILN_DATABASE_SCHEMA=kiln_new kiln migrate/,
    carryOut: async (scene) => {
      await runPrinted(printedIn(scene, /KILN_DATABASE_SCHEMA=kiln_new kiln migrate/), scene.env)
      await withClient(urlOf(scene.installation), async (client) => {
        const { rows } = await client.query(
          "SELECT indexdef FROM pg_indexes WHERE schemaname = 'kiln_new' AND indexname = 'uploads_sweep'",
        )
        await client.query(`${String(rows[0].indexdef).replaceAll("kiln_new.", "kiln.")}; DROP SCHEMA kiln_new CASCADE`)
      })
    },
  },
  {
    what: "a role that may not create temporary tables",
    plant: async (installation) => {
      const url = await roleOf(installation)
      await runSql(installation, `REVOKE TEMPORARY ON DATABASE ${url.pathname.slice(1)} FROM public`)
      await grantRights(installation, url.username)
      return { DATABASE_URL: url.href }
    },
    check: "schema",
    status: "warning",
    seen: /could not be compared/,
    remedy: /GRANT TEMPORARY ON DATABASE/,
    carryOut: [sql(/GRANT TEMPORARY [^;]+/), asOwner],
  },
  {
    what: "a role that may not use the schema",
    plant: async (installation) => ({ DATABASE_URL: (await roleOf(installation)).href }),
    check: "migrations",
    status: "problem",
    seen: /this user lacks permissions/,
    remedy: /^let the schema's owner run kiln migrate and grant the rights listed in docs\/guides\/postgres\.md, then/,
    carryOut: async ({ env, installation }) =>
      grantRights(installation, new URL(env["DATABASE_URL"] ?? "").username).then(() => undefined),
  },
  {
    what: "a role that may not read the files",
    plant: async (installation) => {
      const url = await roleOf(installation)
      await grantRights(installation, url.username)
      await runSql(installation, `REVOKE SELECT ON kiln.blobs FROM ${url.username}`)
      return { DATABASE_URL: url.href, KILN_BLOBS: "postgres" }
    },
    check: "blobs",
    status: "problem",
    seen: /this user lacks permissions/,
    remedy: /^let the schema's owner run kiln migrate and grant the rights/,
    notCarriedOut: "as above",
  },
  {
    what: "a role that reads only, and lacks rights",
    plant: async (installation) => {
      const url = await roleOf(installation)
      await runSql(
        installation,
        `ALTER ROLE ${url.username} SET default_transaction_read_only = on; GRANT USAGE ON SCHEMA kiln TO ${url.username};
         GRANT SELECT ON ALL TABLES IN SCHEMA kiln TO ${url.username}`,
      )
      return { DATABASE_URL: url.href }
    },
    check: "upkeep",
    status: "problem",
    seen: /transactions of the role \w+ are read-only[^]* lacks rights on/,
    remedy: /ALTER ROLE[^]*GRANT USAGE/,
    carryOut: [inTurn(sql(/ALTER ROLE [^,]+/), sql(/GRANT USAGE .*(?=; or set)/)), asOwner],
    leaves: unsynced,
  },
  {
    what: "a session that has locked a table",
    plant: async (installation) => {
      const locked = Promise.withResolvers<void>()
      // The remedy ends its connection.
      const held = withClient(urlOf(installation), async (client) => {
        const ended = new Promise((resolve) => client.once("end", resolve))
        await client.query("BEGIN; LOCK TABLE kiln.switches IN ACCESS EXCLUSIVE MODE")
        locked.resolve()
        await ended
      })
      held.catch(locked.reject)
      await locked.promise
      // The doctor names locks that are older than three seconds.
      await new Promise((resolve) => setTimeout(resolve, 3_500))
    },
    flags: ["--only", "upkeep"],
    check: "upkeep",
    status: "problem",
    seen: /has locked "kiln"\.switches/,
    remedy: /let it end, or end it/,
    carryOut: sql(/SELECT pg_terminate_backend\(\d+\)/),
    leaves: unsynced,
  },
]
