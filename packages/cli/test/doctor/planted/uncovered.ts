import { readdirSync, readFileSync } from "node:fs"
import { remediesIn, type Remedy } from "./remediesIn.ts"

const packages = new URL("../../../../", import.meta.url)
const read = (path: string): ReadonlyArray<Remedy> => remediesIn(readFileSync(new URL(path, packages), "utf8"))

/** All remedies that the doctor can print about an installation on SQLite, or about both. */
export const remediesOfDoctor = (): ReadonlyArray<Remedy> =>
  [
    ...readdirSync(new URL("cli/src/doctor", packages)).map((name) => `cli/src/doctor/${name}`),
    "cli/src/installation/copiedProblem.ts",
    "cli/src/installation/layerInstallation.ts",
    "adapter-sqlite/src/inspect/inspectSqlite.ts",
  ].flatMap(read)

/** All remedies about the upkeep of Postgres. */
export const remediesOfPostgres = (): ReadonlyArray<Remedy> => read("adapter-postgres/src/inspect/inspectPostgres.ts")

/** Remedies that no planted problem has, by their beginnings, and why. */
type Reasons = Readonly<Record<string, string>>

/** Returns what is wrong with the reasons: remedies without one, and reasons for remedies that were printed, or do not exist. */
export const unexplained = (remedies: ReadonlyArray<Remedy>, printed: ReadonlyArray<string>, reasons: Reasons) => {
  const missing = remedies.filter(({ pattern }) => !printed.some((text) => pattern.test(text)))
  const isListed = ({ text }: Remedy) => Object.keys(reasons).some((begin) => text.startsWith(begin))
  return {
    withoutReason: missing.filter((remedy) => !isListed(remedy)).map(({ text }) => text),
    withNeedlessReason: Object.keys(reasons).filter((begin) => !missing.some(({ text }) => text.startsWith(begin))),
  }
}

const onPostgres = "planted in postgresProblems.system.ts"
const network = "needs a server that fails in this way: publicUrl.system.ts finds it"
const certificate = "needs an authority that clients trust: publicUrl.system.ts finds it"

export const reasonsOfDoctor: Reasons = {
  "free or add space there": "needs a full disk: carried out in deadPlaces.system.ts",
  "run kiln doctor as the user of the service": "root may read every directory",
  "stop kiln, copy the directory": "needs a network disk, or memory: carried out in deadPlaces.system.ts",
  "mount a volume there": "needs a container",
  "let both machines set their clocks": onPostgres,
  "set KILN_PROVIDER, or providers in KILN_CONFIG": "a live key is accepted with switches and prices alone",
  "check that this is the right database, then run": "the sweep command has tests of its own",
  "renew the certificate": certificate,
  "install a certificate": certificate,
  "start kiln serve, and see whether the proxy": network,
  "let the proxy forward all paths": network,
  "see the service's log, and the other checks here": network,
  "correct KILN_SIGNING_KEYS": "the settings refuse such keys before",
  "see whether the proxy forwards to another installation":
    "publicAddress.system.ts finds it, and what its own process needs",
  "kiln doctor --only upkeep names the session": onPostgres,
  "run kiln doctor as the schema's owner": onPostgres,
  "run kiln doctor against the primary server": "needs a standby",
  "as the owner of the database:": onPostgres,
  "see whether the disk works": "needs a failing disk",
  "start the server, or correct DATABASE_URL": "postgresProblems.system.ts finds it",
  "see whether the database server, the disks": "needs a server that hangs: deadPlaces.system.ts finds it",
  "stop every process that uses the file": "needs a database that kiln did not create, with 64 MB of unused space",
  "find the program with lsof": "needs 256 MB of log",
}

export const reasonsOfPostgres: Reasons = {
  "as a superuser: ALTER SYSTEM SET autovacuum": "the server of the tests is shared",
  "VACUUM (VERBOSE, ANALYZE)": "needs 100,000 dead rows: the unit test of the upkeep finds it",
  "SELECT pg_terminate_backend(…), and set":
    "needs a transaction that is an hour old: the unit test of the upkeep finds it",
  "set DATABASE_URL to the primary server": "needs a standby",
}
