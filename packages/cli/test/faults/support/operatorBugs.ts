import { fixtures } from "@kiln/conformance"
import { JobStore, KeyDirectory } from "@kiln/core/ports"
import { run, temporaryDirectory } from "@kiln/service-lab"
import * as Effect from "effect/Effect"
import type { Edit } from "../../../../../tests/planted/Edit.ts"
import type { Stores } from "../../../src/openStores.ts"
import { seedEveryState } from "../../support/copiedRecords.ts"
import { join } from "node:path"
import { engineOn, speak } from "../../support/liveFiles.ts"
import { copyOf } from "../../support/copies.ts"
import type { Installation } from "../../support/installations.ts"
import { runInProcess } from "../../support/runInProcess.ts"
import { seedSchedulesAndFlows, writeSchedule } from "../../support/scheduledRecords.ts"

/** Runs a command in a process that may have a bug. Returns its exit code and its document. */
export type Command = (
  args: ReadonlyArray<string>,
  env: Installation["env"],
) => Promise<{ readonly exit: number | string; readonly document: Readonly<Record<string, unknown>> }>

/** Runs commands from sources with these variables. */
export const commandWith =
  (planting: Readonly<Record<string, string>>): Command =>
  async (args, env) => {
    const { exit, stderr, stdout } = await run([...args, "--json"], { ...env, ...planting })
    // A process without its bug, which stops at once, would count as caught.
    if (/ holds \d+ times: /.test(stderr)) throw new Error(stderr)
    return { exit, document: stdout === "" ? {} : (JSON.parse(stdout) as Readonly<Record<string, unknown>>) }
  }

/** A bug in what operators use. */
export interface OperatorBug extends Edit {
  readonly bug: string
  /** Runs commands on an installation and reports what they did. */
  readonly scenario: (installation: Installation, command: Command) => Promise<unknown>
  /** The report without the bug. */
  readonly reported: unknown
}

const shown = async (args: ReadonlyArray<string>, { env }: Pick<Installation, "env">) =>
  JSON.parse((await runInProcess([...args, "--json"], env)).stdout)

const doctorOf =
  (check: string, seed: Effect.Effect<unknown, unknown, Stores>): OperatorBug["scenario"] =>
  async (installation, command) => {
    await installation.use(seed)
    const { document } = await command(["doctor"], installation.env)
    const checks = document["checks"] as ReadonlyArray<{ readonly name: string; readonly status: string }>
    return checks.find(({ name }) => name === check)?.status
  }

const late = writeSchedule("nightly", 5_000)

const schedulesOf = async (installation: Pick<Installation, "env">) =>
  (await shown(["schedule", "list"], installation)).schedules.map(
    ({ name, next_at, paused }: { readonly name: string; readonly next_at: string | null; readonly paused: boolean }) =>
      `${name} ${paused ? "paused" : Date.parse(next_at ?? "") < 1e12 ? "due" : "later"}`,
  )

const actionsOf = async (installation: Installation) =>
  (await shown(["audit", "list"], installation)).changes.map(({ action }: { readonly action: string }) => action)

const erase: OperatorBug["scenario"] = async (installation, command) => {
  await installation.use(Effect.all([seedEveryState, late]))
  await command(["project", "erase", "one", "--confirm", "one"], installation.env)
  const { jobs } = await shown(["job", "list"], installation)
  const kept = jobs.filter(({ data }: { readonly data: string }) => data === "kept")
  return { schedules: await schedulesOf(installation), kept: kept.length }
}

/** The original is used once, so that its copy is known to be one. */
const adoptRestored: OperatorBug["scenario"] = async (installation, command) => {
  await installation.use(Effect.all([seedEveryState, late]))
  await shown(["blobs", "sweep", "--dry-run"], installation)
  await using copy = await copyOf(installation)
  await command(["adopt", "--restored"], copy.env)
  const unfinished = (await shown(["job", "list", "--mode", "live"], copy)).jobs.filter(
    ({ status }: { readonly status: string }) => status !== "done" && status !== "failed",
  )
  return { schedules: await schedulesOf(copy), unfinished: unfinished.length }
}

const erased = { schedules: [], kept: 0 }
const adopted = { schedules: ["nightly later"], unfinished: 0 }
const cli = "packages/cli/src/"

export const operatorBugs: ReadonlyArray<OperatorBug> = [
  {
    bug: "the doctor takes a late schedule for a well one",
    file: `${cli}doctor/checkSchedules.ts`,
    from: "  if (lateBy < lateMs) return []",
    to: "  return []",
    scenario: doctorOf("schedules", late),
    reported: "problem",
  },
  {
    bug: "the doctor overlooks deliveries that fail",
    file: `${cli}doctor/checkDeliveries.ts`,
    from: "...(repeated === 0",
    to: "...(repeated >= 0",
    scenario: doctorOf("deliveries", seedSchedulesAndFlows),
    reported: "warning",
  },
  {
    bug: "the doctor takes an idle queue for a busy one",
    file: `${cli}doctor/checkQueue.ts`,
    from: "ready.oldestMs >= idleMs && running === 0",
    to: "ready.oldestMs >= idleMs && running > 0",
    scenario: async (installation, command) => {
      await installation.useLongAgo(Effect.flatMap(JobStore, (jobs) => jobs.createJobs([fixtures.newJob(1)])))
      return doctorOf("queue", Effect.void)(installation, command)
    },
    reported: "problem",
  },
  {
    bug: "an erased project keeps its schedules",
    file: `${cli}commands/projectErase.ts`,
    from: "for (const { name } of own) yield* removeSchedule(name)",
    to: "",
    scenario: erase,
    reported: erased,
  },
  {
    bug: "an erasure leaves the data of jobs that it canceled",
    file: `${cli}commands/projectErase.ts`,
    from: "jobs.map(({ id, keyId, mode })",
    to: "jobs.filter(isFinished).map(({ id, keyId, mode })",
    scenario: erase,
    reported: erased,
  },
  {
    bug: "a disabled project's schedules go on",
    file: `${cli}commands/project.ts`,
    from: "disabled ? yield* pauseSchedules(id) : []",
    to: "[]",
    scenario: async (installation, command) => {
      await installation.use(Effect.all([seedEveryState, late]))
      await command(["project", "disable", "one"], installation.env)
      return schedulesOf(installation)
    },
    reported: ["nightly paused"],
  },
  {
    bug: "a restored copy submits the jobs of ticks that the original may have charged",
    file: "packages/core/src/installation/copies.ts",
    from: 'unfinished === "cancel" ? yield* skipTicks : 0',
    to: "0",
    scenario: adoptRestored,
    reported: adopted,
  },
  {
    bug: "a restored copy runs live jobs that the original may have charged",
    file: "packages/core/src/installation/copies.ts",
    from: 'unfinished === "cancel" ? yield* cancelLiveJobs : 0',
    to: "0",
    scenario: adoptRestored,
    reported: adopted,
  },
  {
    bug: "a change of a schedule is not recorded",
    file: "packages/adapter-sqlite/src/SqliteStores.ts",
    from: "makeSqliteScheduleStore(recording)",
    to: "makeSqliteScheduleStore(database)",
    scenario: async (installation, command) => {
      await installation.use(late)
      await command(["schedule", "pause", "nightly"], installation.env)
      return actionsOf(installation)
    },
    reported: ["schedule.pause"],
  },
  {
    bug: "a change that was not made is recorded",
    file: "packages/core/src/ports/AuditLog.ts",
    from: "if (verb?.changed(answer) !== true) return undefined",
    to: "if (verb === undefined) return undefined",
    scenario: async (installation, command) => {
      await command(["key", "revoke", fixtures.keyId(7), "--init"], installation.env)
      return actionsOf(installation)
    },
    reported: [],
  },
  {
    bug: "the limits of one key become those of all keys",
    file: "packages/adapter-sqlite/src/keys.ts",
    from: 'set(assign(given, "limits")).where("id", "=", given.id)',
    to: 'set(assign(given, "limits")).where("id", "!=", "")',
    scenario: async (installation, command) => {
      await installation.use(seedEveryState)
      await command(["key", "limit", fixtures.keyId(1), "--limit", "create=7/min:2"], installation.env)
      const keys = await installation.use(Effect.flatMap(KeyDirectory, (directory) => directory.listKeys))
      return keys.map(({ limits }) => limits)
    },
    reported: [{ create: { perMinute: 7, burst: 2 } }, {}],
  },
  {
    bug: "a backup counts files as copied that are not there",
    file: `${cli}blobs/copyBlobs.ts`,
    from: 'if (present === "whole") return',
    to: "return",
    scenario: async (installation, command) => {
      const engine = await engineOn(installation.directory)
      await speak(engine, "one")
      await engine.stop()
      using target = temporaryDirectory()
      const directory = join(target.path, "backups")
      const taken = await command(["backup", directory], installation.env)
      const checked = await runInProcess(["restore", directory, "--check", "--json"])
      return { taken: taken.exit, checked: checked.exit }
    },
    reported: { taken: 0, checked: 0 },
  },
]
