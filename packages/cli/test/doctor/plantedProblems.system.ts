import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { fixtures } from "@kiln/conformance"
import { jobBlobKey, type JobMode } from "@kiln/core/domain"
import { BlobStore, JobStore, KeyDirectory, SecretStore, Switchboard } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { afterEach, describe, expect, it, vi } from "vitest"
import type { Stores } from "../../src/openStores.ts"
import { changeDatabase } from "../support/changeDatabase.ts"
import { type Installation, sqliteInstallation } from "../support/installations.ts"
import { seedSchedulesAndFlows, writeSchedule } from "../support/scheduledRecords.ts"
import { checkOf, diagnose, named, withSecrets } from "./diagnose.ts"
import { makeWell } from "./wellInstallation.ts"

type Environment = Readonly<Record<string, string>>

interface Planted {
  readonly what: string
  /** Changes the installation, and returns variables to run the doctor with. */
  readonly plant: (installation: Installation) => Environment | void | Promise<Environment | void>
  readonly check: string
  readonly status: "warning" | "problem"
  readonly seen: RegExp
  readonly remedy: RegExp
  /** Only root can give a file to another user. */
  readonly needsRoot?: boolean
}

const { jobId, newApiKey, newJob, newLiveJob } = fixtures
const dayMs = 86_400_000

const createJob = (mode: JobMode = "sandbox") =>
  Effect.flatMap(JobStore, (jobs) => jobs.createJobs([mode === "live" ? newLiveJob(1, { gate: null }) : newJob(1)]))

const claimJob = Effect.flatMap(JobStore, (jobs) =>
  jobs.claimJobs({
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
    limits: fixtures.noLimits,
    limit: 1,
    leaseDurationMs: 30_000,
    maxLostWorkers: 3,
  }),
)

const onBoard = (change: (board: Switchboard["Service"]) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(Switchboard, change)

const liveKey = Effect.flatMap(KeyDirectory, (keys) =>
  keys.createKey(newApiKey(2, { mode: "live", scopes: ["images.create"] })),
)

const allOn = onBoard((board) => Effect.all([board.setSwitch("ai", true), board.setSwitch("audio", true)]))

const inStores = (work: Effect.Effect<unknown, unknown, Stores>) => (installation: Installation) =>
  installation.use(Effect.asVoid(work))

/** What became ready, or whose lease ended, did so in 1970. */
const longAgo = (work: Effect.Effect<unknown, unknown, Stores>) => async (installation: Installation) => {
  await installation.use(Effect.asVoid(work))
  changeDatabase(installation.directory, "UPDATE kiln_jobs SET claimable_at = 1 WHERE claimable_at IS NOT NULL")
}

const fileOf =
  (name: string) =>
  ({ directory }: Installation) =>
    join(directory, name)
const database = fileOf("kiln.db")

const putBlob = (directory: string, key: string) =>
  Effect.runPromise(
    Effect.flatMap(BlobStore, (blobs) => blobs.put(key, Stream.succeed(Uint8Array.of(1)), { maxBytes: 1 })).pipe(
      Effect.provide(FileBlobStore.layer({ directory })),
    ),
  )

const isRoot = process.getuid?.() === 0

const planted: ReadonlyArray<Planted> = [
  {
    what: "settings that are out of range",
    plant: () => ({ PORT: "x" }),
    check: "settings",
    status: "problem",
    seen: /PORT must/,
    remedy: /docs\/configuration\.md/,
  },
  {
    what: "a misspelled setting",
    plant: () => ({ KILN_CONCURENCY: "4" }),
    check: "settings",
    status: "warning",
    seen: /did you mean KILN_CONCURRENCY/,
    remedy: /correct or remove/,
  },
  {
    what: "a config file that is gone",
    plant: (installation) => ({ KILN_CONFIG: fileOf("gone.ts")(installation) }),
    check: "settings",
    status: "problem",
    seen: /gone\.ts: file not found/,
    remedy: /unset KILN_CONFIG/,
  },
  {
    what: "two sources of providers",
    plant: (installation) => {
      const path = fileOf("kiln.config.mjs")(installation)
      writeFileSync(path, "export default { providers: { speech: () => {} } }")
      return { KILN_CONFIG: path }
    },
    check: "settings",
    status: "problem",
    seen: /KILN_PROVIDER and the providers in KILN_CONFIG both/,
    remedy: /unset one/,
  },
  {
    what: "a wrong data directory",
    plant: ({ directory }) => ({ KILN_DATA_DIR: join(directory, "elsewhere") }),
    check: "database",
    status: "problem",
    seen: /elsewhere\/kiln\.db has no kiln schema/,
    remedy: /correct KILN_DATA_DIR/,
  },
  {
    what: "a migration that was not applied",
    plant: ({ directory }) => changeDatabase(directory, "DELETE FROM kiln_migrations"),
    check: "migrations",
    status: "problem",
    seen: /0001Initial was not applied/,
    remedy: /^kiln migrate$/m,
  },
  {
    what: "an index that was dropped by hand",
    plant: ({ directory }) => changeDatabase(directory, "DROP INDEX kiln_jobs_ready"),
    check: "schema",
    status: "problem",
    seen: /index kiln_jobs_ready is missing/,
    remedy: /undo what was changed by hand/,
  },
  {
    what: "a row that refers to nothing",
    plant: ({ directory }) =>
      changeDatabase(
        directory,
        "PRAGMA foreign_keys = OFF; INSERT INTO kiln_key_secrets VALUES ('hash', 'key_gone', 1, NULL)",
      ),
    check: "integrity",
    status: "problem",
    seen: /kiln_key_secrets refers to a missing row/,
    remedy: /restore a backup/,
  },
  {
    what: "erased files that nobody removes",
    plant: ({ directory }) =>
      changeDatabase(directory, "INSERT INTO kiln_purges (blob_prefix, recorded_at) VALUES ('jobs/a', 1)"),
    check: "purges",
    status: "problem",
    seen: /1 erased blob still to be removed, the oldest for \d+ d/,
    remedy: /kiln retention run/,
  },
  {
    what: "a clock that was set back",
    plant: ({ directory }) => changeDatabase(directory, `UPDATE kiln_store_time SET latest = ${Date.now() + dayMs}`),
    check: "clock",
    status: "problem",
    seen: /24 h behind the latest time in the database/,
    remedy: /timedatectl set-ntp true/,
  },
  {
    what: "no API key",
    plant: ({ directory }) => changeDatabase(directory, "DELETE FROM kiln_key_secrets; DELETE FROM kiln_api_keys"),
    check: "keys",
    status: "warning",
    seen: /there is no API key/,
    remedy: /kiln key create --project default --mode test/,
  },
  {
    what: "an installation without a backup",
    plant: ({ directory }) => changeDatabase(directory, "UPDATE kiln_api_keys SET created_at = 1"),
    check: "backups",
    status: "warning",
    seen: /kiln backup has never run/,
    remedy: /kiln backup DIR, every night/,
  },
  {
    what: "a backup that is too old",
    plant: ({ directory }) =>
      changeDatabase(
        directory,
        `INSERT INTO kiln_audit (at, actor, origin, action, subject, details)
        VALUES (${Date.now() - 3 * dayMs}, 'user', 'host', 'backup.create', '/mnt/backup', '{}')`,
      ),
    check: "backups",
    status: "warning",
    seen: /the last backup, in \/mnt\/backup, is 3 d old/,
    remedy: /kiln backup \/mnt\/backup, every night/,
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
  },
  {
    what: "a job that no worker takes",
    plant: longAgo(createJob()),
    check: "queue",
    status: "problem",
    seen: /1 job of type speech_synthesis \(sandbox\) ready, the oldest for \d+ d, and not one running/,
    remedy: /start a worker: kiln serve/,
  },
  {
    what: "a lease that has ended without a successor",
    plant: longAgo(Effect.andThen(createJob(), claimJob)),
    check: "queue",
    status: "problem",
    seen: /1 job of type speech_synthesis \(sandbox\) lost by a worker, the first \d+ d ago/,
    remedy: /start a worker/,
  },
  {
    what: "jobs of a paused type",
    plant: inStores(
      Effect.andThen(
        createJob(),
        onBoard((board) => board.pauseKind("speech_synthesis", true)),
      ),
    ),
    check: "queue",
    status: "warning",
    seen: /1 job of type speech_synthesis \(sandbox\) held back: the type is paused/,
    remedy: /^kiln queue resume speech_synthesis$/m,
  },
  {
    what: "live jobs behind a switch that is off",
    plant: inStores(createJob("live")),
    check: "queue",
    status: "warning",
    seen: /held back until their time in the queue is over: the switch ai is off/,
    remedy: /^kiln switch on ai$/m,
  },
  {
    what: "live jobs behind a switch that the environment forces off",
    plant: async (installation) => {
      await installation.use(Effect.asVoid(Effect.andThen(createJob("live"), allOn)))
      return { KILN_SWITCH_AUDIO: "off" }
    },
    check: "queue",
    status: "warning",
    seen: /: the switch audio is off/,
    remedy: /kiln switch on audio/,
  },
  {
    what: "live jobs without a worker that serves them",
    plant: longAgo(Effect.andThen(createJob("live"), allOn)),
    check: "queue",
    status: "problem",
    seen: /held back: no running worker serves the type/,
    remedy: /KILN_ROLE=worker kiln serve, with KILN_PROVIDER/,
  },
  {
    what: "a live key without a price",
    plant: inStores(liveKey),
    check: "live",
    status: "warning",
    seen: /image_generation are rejected: the price svc-image is not active/,
    remedy: /kiln price activate svc-image/,
  },
  {
    what: "a provider that rejects its key",
    plant: inStores(
      onBoard((board) =>
        board.publishWorker({
          workerId: "w",
          liveKinds: [],
          providers: [{ provider: "speech", status: "paused", reason: "configuration", since: 1_000 }],
          ttlMs: 60_000,
        }),
      ),
    ),
    check: "providers",
    status: "problem",
    seen: /speech is paused in 1 of 1 worker: it rejects its configuration/,
    remedy: /correct KILN_OPENAI_API_KEY/,
  },
  {
    what: "a provider that fails for now",
    plant: inStores(
      onBoard((board) =>
        board.publishWorker({
          workerId: "w",
          liveKinds: [],
          providers: [{ provider: "speech", status: "paused", reason: "failing", since: 1_000 }],
          ttlMs: 60_000,
        }),
      ),
    ),
    check: "providers",
    status: "warning",
    seen: /speech is paused/,
    remedy: /status page/,
  },
  {
    what: "a database that other users can read",
    plant: (installation) => chmodSync(database(installation), 0o644),
    check: "permissions",
    status: "problem",
    seen: /kiln\.db has mode 644: other users can read it/,
    remedy: /chmod 600 .*kiln\.db/,
  },
  {
    what: "a config file that other users can change",
    plant: (installation) => {
      const path = fileOf("kiln.config.mjs")(installation)
      writeFileSync(path, "export default {}")
      chmodSync(path, 0o666)
      return { KILN_CONFIG: path }
    },
    check: "permissions",
    status: "problem",
    seen: /other users can change the code that the service runs/,
    remedy: /chmod go-w .*kiln\.config\.mjs/,
  },
  {
    what: "a secret's file that other users can read",
    plant: (installation) => {
      const path = fileOf("openai")(installation)
      writeFileSync(path, "sk-canary-5f3c\n")
      chmodSync(path, 0o644)
      return { KILN_OPENAI_API_KEY: "", KILN_OPENAI_API_KEY_FILE: path }
    },
    check: "permissions",
    status: "warning",
    seen: /contains KILN_OPENAI_API_KEY/,
    remedy: /chmod 600 .*openai/,
  },
  {
    what: "a database that a command of another user has created",
    needsRoot: true,
    plant: (installation) => {
      chmodSync(installation.directory, 0o777)
      chownSync(database(installation), 12_345, 12_345)
    },
    check: "permissions",
    status: "problem",
    seen: /belong to another user than/,
    remedy: /chown --reference=/,
  },
  {
    what: "a public host without a public URL",
    plant: () => ({ HOST: "0.0.0.0" }),
    check: "address",
    status: "problem",
    seen: /URLs of uploads and files begin with http:\/\/127\.0\.0\.1/,
    remedy: /set PUBLIC_URL/,
  },
  {
    what: "a public URL without TLS",
    plant: () => ({ PUBLIC_URL: "http://kiln.invalid" }),
    check: "address",
    status: "warning",
    seen: /unencrypted/,
    remedy: /docs\/guides\/self-hosting\.md/,
  },
  {
    what: "rate limits that are off at a public address",
    plant: () => ({ PUBLIC_URL: "https://kiln.invalid", KILN_RATE_LIMITS: "off" }),
    check: "address",
    status: "warning",
    seen: /KILN_RATE_LIMITS is off at a public address/,
    remedy: /unset KILN_RATE_LIMITS/,
  },
  {
    what: "a proxy that is not trusted",
    plant: () => ({ PUBLIC_URL: "https://kiln.invalid" }),
    check: "address",
    status: "warning",
    seen: /all callers behind the proxy share one limit/,
    remedy: /KILN_TRUSTED_PROXIES/,
  },
  {
    what: "a public URL whose name is not registered",
    plant: () => ({ PUBLIC_URL: "https://kiln.invalid" }),
    check: "public-url",
    status: "problem",
    seen: /https:\/\/kiln\.invalid cannot be reached from here: (ENOTFOUND|EAI_AGAIN)/,
    remedy: /DNS record/,
  },
  {
    what: "a bucket without credentials",
    plant: () => {
      for (const name of ["AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"])
        vi.stubEnv(name, "/nowhere")
      vi.stubEnv("AWS_SECRET_ACCESS_KEY", "")
      vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIA")
      return { KILN_BLOBS: "s3://bucket/kiln?region=eu-central-1&endpoint=http://127.0.0.1:9" }
    },
    check: "blobs",
    status: "problem",
    seen: /set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/,
    remedy: /correct KILN_BLOBS or its credentials/,
  },
  {
    what: "files of another installation",
    plant: ({ directory }) => {
      rmSync(join(directory, "blobs"), { recursive: true })
      return putBlob(directory, "installation/0123456789abcdef0123456789abcdef").then(() => undefined)
    },
    check: "installation",
    status: "problem",
    seen: /belongs to another installation/,
    remedy: /correct DATABASE_URL, KILN_DATA_DIR or KILN_BLOBS/,
  },
  {
    what: "a directory of files that is not mounted",
    plant: ({ directory }) => rmSync(join(directory, "blobs"), { recursive: true }),
    check: "installation",
    status: "warning",
    seen: /not marked yet/,
    remedy: /mounted place/,
  },
  {
    what: "a file that is missing",
    plant: inStores(
      Effect.gen(function* () {
        yield* createJob()
        const { claims } = yield* claimJob
        yield* (yield* JobStore).completeJobs(
          claims.map((claim) => fixtures.completionOf(claim, { files: [fixtures.outputFile(claim, 1)] })),
        )
      }),
    ),
    check: "blobs",
    status: "problem",
    seen: /fil_0+1: its blob is missing \(jobs\//,
    remedy: /restore them from a backup/,
  },
  {
    what: "a schedule that no worker looks at",
    plant: inStores(writeSchedule("nightly", 5_000)),
    check: "schedules",
    status: "problem",
    seen: /the schedule "nightly" has been due for \d+ d, and no worker has submitted its job/,
    remedy: /start a worker that has the type speech_synthesis; .*kiln schedule pause nightly/,
  },
  {
    what: "a schedule that was refused before its worker went away",
    plant: inStores(writeSchedule("nightly", 5_000, { refusal: "queue_full" })),
    check: "schedules",
    status: "problem",
    seen: /has been due for \d+ d/,
    remedy: /start a worker/,
  },
  {
    what: "a schedule whose job is refused",
    plant: inStores(
      Effect.suspend(() => {
        const timing = { everyMs: dayMs, from: 0 }
        const today = Math.floor(Date.now() / dayMs) * dayMs
        return writeSchedule("daily", today, { timing, refusal: "queue_full" })
      }),
    ),
    check: "schedules",
    status: "warning",
    seen: /the job of the schedule "daily" is refused \(queue_full\)/,
    remedy: /log of the workers; .*kiln schedule pause daily/,
  },
  {
    what: "finished jobs that no process delivers",
    plant: async (installation) => {
      await installation.use(seedSchedulesAndFlows)
      changeDatabase(installation.directory, "UPDATE kiln_deliveries SET due_at = 1, token = token + 1")
    },
    check: "deliveries",
    status: "problem",
    seen: /2 finished jobs of type speech_synthesis not delivered to onFinished, the first due for \d+ d/,
    remedy: /start a worker whose engine has onFinished for speech_synthesis; kiln delivery list/,
  },
  {
    what: "deliveries that fail",
    plant: inStores(seedSchedulesAndFlows),
    check: "deliveries",
    status: "warning",
    seen: /onFinished has failed for 1 job of type speech_synthesis, and is called again/,
    remedy: /onFinished failed/,
  },
  {
    what: "files without a record",
    plant: ({ directory }) => putBlob(directory, jobBlobKey(jobId(9), 1, "audio")).then(() => undefined),
    check: "orphans",
    status: "warning",
    seen: /1 file kept although the database has no record/,
    remedy: /see whether this is the newest database/,
  },
]

afterEach(() => vi.unstubAllEnvs())

describe("kiln doctor on SQLite", () => {
  it("finds nothing to do in a well installation", async () => {
    await using installation = await sqliteInstallation()
    await makeWell(installation)
    const diagnosis = await diagnose({ ...installation.env, ...withSecrets }, "--strict")
    // The disk of the machine that runs the test is not the test's.
    expect(named(diagnosis, "problem", "warning").filter((name) => !["disk", "filesystem"].includes(name))).toEqual([])
    const page = readFileSync(new URL("../../../../docs/configuration.md", import.meta.url), "utf8")
    const documented = /^\| Check \| Finds \|\n([^]*?)\n\n/m.exec(page)?.[1] ?? ""
    for (const { name } of diagnosis.checks) expect(documented).toContain(`\`${name}\``)
  })

  for (const { check, needsRoot, plant, remedy, seen, status, what } of planted)
    it(`finds ${what}`, async ({ skip }) => {
      if (needsRoot === true && !isRoot) skip("only root can give a file to another user")
      await using installation = await sqliteInstallation()
      await makeWell(installation)
      const env = { ...installation.env, ...withSecrets, ...(await plant(installation)) }
      const found = checkOf(await diagnose(env), check)
      expect(found).toEqual({ status, seen: expect.stringMatching(seen), remedy: expect.stringMatching(remedy) })
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
