import { rmSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { fixtures, readKeptDatabase } from "@kiln/conformance"
import { KeyDirectory, SecretStore } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { expect } from "vitest"
import { changeDatabase } from "../../support/changeDatabase.ts"
import { runInProcess } from "../../support/runInProcess.ts"
import { command, inTurn, printedIn, runPrinted, set, startService } from "./acts.ts"
import type { Act, Environment, Planted, Scene } from "./Planted.ts"
import { dayMs, inStores } from "./support.ts"

const { newApiKey } = fixtures

const restoreKept = (directory: string, name: string): void => {
  const path = join(directory, "kiln.db")
  for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true })
  const kept = new URL(`../../../../adapter-sqlite/test/kept/${name}.sql.gz`, import.meta.url)
  const database = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  database.exec(readKeptDatabase(kept, Date.now()))
  database.close()
}

/** A directory beside the data directory, which is removed when the doctor has looked again. */
const beside = (name: string, { installation, started }: Scene): string => {
  const path = `${installation.directory}.${name}`
  started.defer(() => rmSync(path, { recursive: true, force: true }))
  return path
}

const backupDirectory = (scene: Scene) => ({ DIR: beside("backup", scene) })

const takeBackup = async (directory: string, env: Environment): Promise<void> => {
  expect(await runInProcess(["backup", `${directory}.backup`], env)).toMatchObject({ exit: 0 })
}

/** Restores the backup, and does what `kiln restore` then says. */
const restoreBackup: Act = async (scene) => {
  const to = beside("restored", scene)
  const line = printedIn(scene, /kiln restore DIR --to NEW_DATA_DIR/, {
    DIR: beside("backup", scene),
    NEW_DATA_: "",
  })
  const said = await runPrinted(line.replace(/--to .*/, `--to ${to}`), scene.env)
  await runPrinted(/KILN_DATA_DIR=.* kiln adopt .*/.exec(said)?.[0] ?? "", scene.env)
  return { KILN_DATA_DIR: to }
}

/** Creates what is missing as a new installation has it. */
const copyFromNew: Act = async (scene) => {
  const { directory } = scene.installation
  const other = join(directory, "other")
  await runPrinted(printedIn(scene, /KILN_DATA_DIR=\S+ kiln migrate --init/, { "./new": other }), scene.env)
  const database = new DatabaseSync(join(other, "kiln.db"), { readOnly: true })
  const { sql } = database.prepare("SELECT sql FROM sqlite_schema WHERE name = 'kiln_jobs_ready'").get() ?? {}
  database.close()
  changeDatabase(directory, String(sql))
}

const renewKey = inTurn(command(/kiln key create [^,]+/), command(/kiln key revoke \S+/))

const startRestarted: Act = async (scene) => {
  expect(scene.printed).toContain("restart them")
  await startService(scene)
}

export const recordsProblems: ReadonlyArray<Planted> = [
  {
    what: "a wrong data directory",
    plant: ({ directory }) => ({ KILN_DATA_DIR: join(directory, "elsewhere") }),
    check: "database",
    status: "problem",
    seen: /elsewhere\/kiln\.db has no kiln schema/,
    remedy: /correct KILN_DATA_DIR/,
    carryOut: [
      async ({ installation, printed }) => {
        expect(printed).toContain("correct KILN_DATA_DIR")
        return { KILN_DATA_DIR: installation.directory }
      },
      command(/kiln migrate --init/),
    ],
  },
  {
    what: "migrations that were not applied",
    plant: ({ directory }) => restoreKept(directory, "2026-11-26"),
    check: "migrations",
    status: "problem",
    seen: /\d{4}\w+ was not applied/,
    remedy: /^kiln migrate$/m,
    carryOut: command(/^kiln migrate$/m),
  },
  {
    what: "a schema of another development version",
    plant: ({ directory }) => restoreKept(directory, "2026-11-22"),
    check: "migrations",
    status: "problem",
    seen: /the schema is that of another development version/,
    remedy: /run the version of kiln that created it/,
    carryOut: async ({ env, installation, printed }) => {
      expect(printed).toContain("begin with an empty database: set KILN_DATA_DIR")
      const changes = { KILN_DATA_DIR: join(installation.directory, "new") }
      expect(await runInProcess(["migrate", "--init"], { ...env, ...changes })).toMatchObject({ exit: 0 })
      return changes
    },
  },
  {
    what: "a migration of a newer version",
    plant: ({ directory }) =>
      changeDatabase(
        directory,
        "INSERT INTO kiln_migrations SELECT '9999Newer', applied_at, digest FROM kiln_migrations LIMIT 1",
      ),
    check: "migrations",
    status: "warning",
    seen: /9999Newer is not known to this version/,
    remedy: /upgrade kiln/,
    notCarriedOut: "there is no newer version to install",
  },
  {
    what: "an index that was dropped by hand",
    plant: ({ directory }) => changeDatabase(directory, "DROP INDEX kiln_jobs_ready"),
    check: "schema",
    status: "problem",
    seen: /index kiln_jobs_ready is missing/,
    remedy: /undo what was changed by hand/,
    carryOut: copyFromNew,
  },
  {
    what: "a row that refers to nothing",
    plant: async ({ directory, env }) => {
      await takeBackup(directory, env)
      changeDatabase(
        directory,
        "PRAGMA foreign_keys = OFF; INSERT INTO kiln_key_secrets VALUES ('hash', 'key_gone', 1, NULL)",
      )
    },
    check: "integrity",
    status: "problem",
    seen: /kiln_key_secrets refers to a missing row/,
    remedy: /restore a backup/,
    carryOut: restoreBackup,
  },
  {
    what: "erased files that nobody removes",
    plant: ({ directory }) =>
      changeDatabase(directory, "INSERT INTO kiln_purges (blob_prefix, recorded_at) VALUES ('jobs/a', 1)"),
    check: "purges",
    status: "problem",
    seen: /1 erased blob still to be removed, the oldest for \d+ d/,
    remedy: /kiln retention run/,
    carryOut: command(/kiln retention run/),
  },
  {
    what: "a clock that was set back",
    plant: ({ directory }) => changeDatabase(directory, `UPDATE kiln_store_time SET latest = ${Date.now() + dayMs}`),
    check: "clock",
    status: "problem",
    seen: /24 h behind the latest time in the database/,
    remedy: /timedatectl set-ntp true/,
    notCarriedOut: "a test does not set the clock of the machine",
  },
  {
    what: "no API key",
    plant: ({ directory }) => changeDatabase(directory, "DELETE FROM kiln_key_secrets; DELETE FROM kiln_api_keys"),
    check: "keys",
    status: "warning",
    seen: /there is no API key/,
    remedy: /kiln key create --project default --mode test/,
    carryOut: inTurn(command(/npx \S+ \S+ kiln project create default/), command(/npx \S+ \S+ kiln key create .*/)),
  },
  {
    what: "an installation without a backup",
    plant: ({ directory }) => changeDatabase(directory, "UPDATE kiln_api_keys SET created_at = 1"),
    check: "backups",
    status: "warning",
    seen: /kiln backup has never run/,
    remedy: /kiln backup DIR, every night/,
    carryOut: [command(/kiln backup DIR/, backupDirectory), set({ KILN_BACKUP_AGE: "0" })],
  },
  {
    what: "a backup that is too old",
    plant: async ({ directory, env }) => {
      expect(await runInProcess(["backup", `${directory}.of kiln`], env)).toMatchObject({ exit: 0 })
      changeDatabase(
        directory,
        `INSERT INTO kiln_audit (at, actor, origin, action, subject, details)
        VALUES (${Date.now() - 3 * dayMs}, 'user', 'host', 'backup.create', '${directory}.of kiln', '{}')`,
      )
    },
    check: "backups",
    status: "warning",
    seen: /the last backup, in \S+\.of kiln, is 3 d old/,
    remedy: /kiln backup '.*\.of kiln', every night/,
    carryOut: inTurn(
      async ({ installation, started }) => {
        const made = `${installation.directory}.of kiln`
        started.defer(() => rmSync(made, { recursive: true, force: true }))
      },
      command(/kiln backup [^,]+/),
    ),
  },
  {
    what: "a key that is about to expire",
    plant: inStores(
      Effect.flatMap(KeyDirectory, (keys) => keys.createKey(newApiKey(2, { expiresAt: Date.now() + 3 * dayMs }))),
    ),
    check: "keys",
    status: "warning",
    seen: /key_0+2 \(key 2\) expires in 3 d/,
    remedy: /kiln key create --project prj_0+1 --mode test --scope audio\.create/,
    carryOut: renewKey,
  },
  {
    what: "an expired key that was in use",
    plant: inStores(
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        const { id } = newApiKey(2)
        yield* keys.createKey(newApiKey(2, { expiresAt: Date.now() - dayMs }))
        yield* keys.touchKeys([{ keyId: id, usedAt: Date.now() - dayMs - 1_000 }])
      }),
    ),
    check: "keys",
    status: "problem",
    seen: /expired 24 h ago and was in use: its callers get 401/,
    remedy: /give the new key to its users/,
    carryOut: renewKey,
  },
  {
    what: "a signing key in the store that is too short",
    plant: inStores(
      Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("signing-keys", Buffer.from("old:c2hvcnQ"))),
    ),
    check: "signing-keys",
    status: "problem",
    seen: /at least 32 bytes/,
    remedy: /kiln signing-key drop/,
    carryOut: command(/kiln signing-key drop/, { drop: "drop old" }),
  },
  {
    what: "another process with other signing keys",
    plant: inStores(
      Effect.flatMap(SecretStore, (secrets) =>
        secrets.getOrCreate(
          "signing-note",
          Buffer.from(JSON.stringify({ signs: "other (012345678901)", verifies: ["other (012345678901)"] })),
        ),
      ),
    ),
    check: "signing-keys",
    status: "problem",
    seen: /the process that started last signs URLs with the key other/,
    remedy: /the same KILN_SIGNING_KEYS/,
    carryOut: startRestarted,
  },
  {
    what: "a database that is too large to read in the time",
    plant: ({ directory }) =>
      // A second is enough for 50 MB.
      changeDatabase(
        directory,
        "CREATE TABLE large (content); INSERT INTO large VALUES (zeroblob(60000000)); DROP TABLE large",
      ),
    flags: ["--limit", "1s"],
    check: "integrity",
    status: "warning",
    seen: /too large for the time limit/,
    remedy: /kiln doctor --limit 2h/,
    carryOut: command(/kiln doctor --limit 2h/, { doctor: "doctor --only integrity" }),
  },
  {
    what: "erased files that were just recorded",
    plant: ({ directory }) =>
      changeDatabase(directory, `INSERT INTO kiln_purges (blob_prefix, recorded_at) VALUES ('jobs/a', ${Date.now()})`),
    check: "purges",
    status: "warning",
    seen: /1 erased blob still to be removed/,
    remedy: /wait some minutes, while kiln serve runs/,
    carryOut: command(/kiln retention run/),
  },
]
