import { fixtures } from "@kiln/conformance"
import { JobStore, KeyDirectory } from "@kiln/core/ports"
import { run, temporaryDirectory } from "@kiln/service-lab"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import type { Stores } from "../../src/openStores.ts"
import { seedEveryState } from "../support/copiedRecords.ts"
import { join } from "node:path"
import { engineOn, speak } from "../support/liveFiles.ts"
import { copyOf } from "../support/copies.ts"
import { type Installation, sqliteInstallation } from "../support/installations.ts"
import { runInProcess } from "../support/runInProcess.ts"
import { seedSchedulesAndFlows, writeSchedule } from "../support/scheduledRecords.ts"

/** Runs a command in a process of its own. Returns its exit code and its document. */
const command = async (args: ReadonlyArray<string>, env: Installation["env"]) => {
  const { exit, stdout } = await run([...args, "--json"], env)
  return { exit, document: stdout === "" ? {} : (JSON.parse(stdout) as Readonly<Record<string, unknown>>) }
}

/** A scenario of an operator. */
interface Scenario {
  readonly name: string
  /** Runs commands on an installation and reports what they did. */
  readonly scenario: (installation: Installation) => Promise<unknown>
  readonly reported: unknown
}

const shown = async (args: ReadonlyArray<string>, { env }: Pick<Installation, "env">) =>
  JSON.parse((await runInProcess([...args, "--json"], env)).stdout)

const doctorOf =
  (check: string, seed: Effect.Effect<unknown, unknown, Stores>): Scenario["scenario"] =>
  async (installation) => {
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

const erase: Scenario["scenario"] = async (installation) => {
  await installation.use(Effect.all([seedEveryState, late]))
  await command(["project", "erase", "one", "--confirm", "one"], installation.env)
  const { jobs } = await shown(["job", "list"], installation)
  const kept = jobs.filter(({ data }: { readonly data: string }) => data === "kept")
  return { schedules: await schedulesOf(installation), kept: kept.length }
}

/** The original is used once, so that its copy is known to be one. */
const adoptRestored: Scenario["scenario"] = async (installation) => {
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

const scenarios: ReadonlyArray<Scenario> = [
  {
    name: "the doctor reports a late schedule",
    scenario: doctorOf("schedules", late),
    reported: "problem",
  },
  {
    name: "the doctor warns of deliveries that fail",
    scenario: doctorOf("deliveries", seedSchedulesAndFlows),
    reported: "warning",
  },
  {
    name: "the doctor reports a queue that nothing works on",
    scenario: async (installation) => {
      await installation.useLongAgo(Effect.flatMap(JobStore, (jobs) => jobs.createJobs([fixtures.newJob(1)])))
      return doctorOf("queue", Effect.void)(installation)
    },
    reported: "problem",
  },
  {
    name: "the schedules and data of an erased project are deleted",
    scenario: erase,
    reported: erased,
  },
  {
    name: "the schedules of a disabled project are paused",
    scenario: async (installation) => {
      await installation.use(Effect.all([seedEveryState, late]))
      await command(["project", "disable", "one"], installation.env)
      return schedulesOf(installation)
    },
    reported: ["nightly paused"],
  },
  {
    name: "a restored copy skips ticks and cancels live jobs that the original may have charged",
    scenario: adoptRestored,
    reported: adopted,
  },
  {
    name: "a change of a schedule is recorded",
    scenario: async (installation) => {
      await installation.use(late)
      await command(["schedule", "pause", "nightly"], installation.env)
      return actionsOf(installation)
    },
    reported: ["schedule.pause"],
  },
  {
    name: "a change that was not made is not recorded",
    scenario: async (installation) => {
      await command(["key", "revoke", fixtures.keyId(7), "--init"], installation.env)
      return actionsOf(installation)
    },
    reported: [],
  },
  {
    name: "the limits of one key are its own",
    scenario: async (installation) => {
      await installation.use(seedEveryState)
      await command(["key", "limit", fixtures.keyId(1), "--limit", "create=7/min:2"], installation.env)
      const keys = await installation.use(Effect.flatMap(KeyDirectory, (directory) => directory.listKeys))
      return keys.map(({ limits }) => limits)
    },
    reported: [{ create: { perMinute: 7, burst: 2 } }, {}],
  },
  {
    name: "a backup contains the files that it counts",
    scenario: async (installation) => {
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

describe("commands of operators", () => {
  it.each(scenarios)("$name", { timeout: 180_000 }, async ({ reported, scenario }) => {
    await using installation = await sqliteInstallation()
    expect(await scenario(installation)).toEqual(reported)
  })
})
