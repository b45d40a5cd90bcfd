import { expect, it } from "@effect/vitest"
import Sqlite from "better-sqlite3"
import { Clock, Effect, Exit, Logger, Scope } from "effect"
import { fixtures } from "@kiln/conformance"
import { CommitWatch } from "../src/CommitWatch.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { makeSqliteCallerTransactions } from "../src/callers/SqliteCallerTransactions.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { charge, completionOf, jobId, leaseDurationMs, newJob, newLiveJob, noLimits } = fixtures
const hour = 3_600_000

/** A machine whose wall clock can be set. Collects the warnings of its processes. */
class Machine {
  wallMs = 1_800_000_000_000
  monotonicMs = 1
  readonly warnings: Array<string> = []

  pass(ms: number): void {
    this.wallMs += ms
    this.monotonicMs += ms
  }

  /** Runs an effect with this machine's clocks. */
  run<A, E>(effect: Effect.Effect<A, E>): Promise<A> {
    const wall = () => this.wallMs
    const nanos = () => BigInt(Math.round(this.monotonicMs * 1e6))
    const clock: Clock.Clock = {
      currentTimeMillisUnsafe: wall,
      currentTimeMillis: Effect.sync(wall),
      currentTimeNanosUnsafe: () => BigInt(wall()) * 1_000_000n,
      currentTimeNanos: Effect.sync(() => BigInt(wall()) * 1_000_000n),
      monotonicTimeNanosUnsafe: nanos,
      monotonicTimeNanos: Effect.sync(nanos),
      sleep: () => Effect.yieldNow,
    }
    const logger = Logger.make(({ message }) => void this.warnings.push(String(message)))
    return effect.pipe(
      Effect.provideService(Clock.Clock, clock),
      Effect.provide(Logger.layer([logger])),
      Effect.runPromise,
    )
  }

  /** Opens the file like a separate process. */
  async open(path: string) {
    const scope = Scope.makeUnsafe()
    const database = await this.run(Effect.provideService(openDatabase({ path }), Scope.Scope, scope))
    const { board, jobs } = storesOf(database)
    return { board, jobs, database, close: () => this.run(Scope.close(scope, Exit.void)) }
  }
}

const request = (mode: "sandbox" | "live" = "sandbox") => ({
  runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode }],
  limits: noLimits,
  limit: 1,
  leaseDurationMs,
  maxLostWorkers: 3,
})

const onFile = (name: string, test: (machine: Machine, path: string) => Promise<void>) =>
  it.live(name, () => Effect.flatMap(temporaryFile, (path) => Effect.promise(() => test(new Machine(), path))))

onFile(
  "after the clock went back an hour, jobs accepted before are claimed at once, and leases and delays end",
  async (machine, path) => {
    const { close, jobs } = await machine.open(path)
    await machine.run(jobs.createJobs([newJob(1), newJob(2, { delayMs: 9_000 })]))
    const acceptedAt = machine.wallMs
    machine.wallMs -= hour
    machine.pass(10)
    const first = await machine.run(jobs.claimJobs(request()))
    expect(first.claims.map(({ job }) => job.id)).toEqual([jobId(1)])
    expect(first.claims[0]?.job.phaseStartedAt).toBe(acceptedAt + 9)
    // A tenth slower than real time, so that the wall clock catches up.
    machine.pass(10_000)
    const second = await machine.run(jobs.claimJobs(request()))
    expect(second.claims.map(({ job }) => job.id)).toEqual([jobId(2)])
    machine.pass(leaseDurationMs / 0.9)
    const third = await machine.run(jobs.claimJobs(request()))
    expect(third.claims.map(({ job }) => [job.id, job.lostWorkers])).toEqual([[jobId(1), 1]])
    expect(machine.warnings).toEqual([expect.stringMatching(/^The wall clock went back by 3600 s/)])
    await close()
  },
)

onFile(
  "a single job of another process, whose clock is behind, is not before the newest job",
  async (machine, path) => {
    const [one, two] = [await machine.open(path), await machine.open(path)]
    await machine.run(one.jobs.createJobs([newJob(1)]))
    machine.pass(2 * hour)
    await machine.run(one.jobs.createJobs([newJob(2)]))
    const newestAt = machine.wallMs
    machine.wallMs -= hour
    const [outcome] = await machine.run(two.jobs.createJobs([newJob(3)]))
    expect(outcome?._tag === "Created" ? outcome.job.createdAt : undefined).toBeGreaterThanOrEqual(newestAt)
    for (const { close } of [one, two]) await close()
  },
)

onFile(
  "what one process wrote is not before another's time, nor before that of one that starts later",
  async (machine, path) => {
    const [one, two] = [await machine.open(path), await machine.open(path)]
    await machine.run(one.jobs.createJobs([newJob(1)]))
    const acceptedAt = machine.wallMs
    machine.wallMs -= hour
    const claimed = await machine.run(two.jobs.claimJobs(request()))
    expect(claimed.claims[0]?.job).toMatchObject({ createdAt: acceptedAt, phaseStartedAt: acceptedAt })
    await one.close()
    await two.close()
    const three = await machine.open(path)
    machine.pass(1_000)
    const { 0: created } = await machine.run(three.jobs.createJobs([newJob(2)]))
    expect(created).toMatchObject({ _tag: "Created", job: { createdAt: acceptedAt + 900 } })
    expect(machine.warnings.at(-1)).toMatch(/^The wall clock went back by 3600 s/)
    await three.close()
  },
)

onFile(
  "after the clock went forward a day, or the machine slept, a claimed job is extended and completed",
  async (machine, path) => {
    const { close, jobs } = await machine.open(path)
    await machine.run(jobs.createJobs([newJob(1, { limits: { queueLimitMs: 24 * hour, runLimitMs: hour / 2 } })]))
    const { claims } = await machine.run(jobs.claimJobs(request()))
    const [claim] = claims
    if (claim === undefined) throw new Error("expected a claim")
    machine.wallMs += 25 * hour
    const item = { jobId: jobId(1), token: claim.token }
    expect(await machine.run(jobs.extendLeases([{ ...item, leaseDurationMs }]))).toEqual([
      { _tag: "Extended", leaseRemainingMs: leaseDurationMs },
    ])
    expect(await machine.run(jobs.expireJobs(10))).toEqual([])
    expect(await machine.run(jobs.completeJobs([completionOf(claim)]))).toEqual(["Written"])
    expect(machine.warnings).toEqual([expect.stringMatching(/^The wall clock went forward by 90000 s/)])
    await close()
  },
)

onFile(
  "no charge gets a time before the end of an export, also if the clock goes back and the process restarts",
  async (machine, path) => {
    const everything = { from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 }
    const one = await machine.open(path)
    await machine.run(
      Effect.all([
        one.board.setSwitch("ai", true),
        one.board.setSwitch("audio", true),
        one.board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.1" } }),
        one.board.activatePrice("svc-audio", true),
        one.board.publishWorker({ workerId: "w", liveKinds: ["speech_synthesis"], providers: [], ttlMs: hour }),
        one.jobs.createJobs([newLiveJob(1)]),
      ]),
    )
    machine.pass(60_000)
    const { until } = await machine.run(one.jobs.listCharges(everything))
    await one.close()
    machine.wallMs -= hour
    const two = await machine.open(path)
    const [claim] = (await machine.run(two.jobs.claimJobs(request("live")))).claims
    if (claim === undefined) throw new Error("expected a claim")
    expect(await machine.run(two.jobs.completeJobs([completionOf(claim, { charge })]))).toEqual(["Written"])
    const { entries } = await machine.run(two.jobs.listCharges({ ...everything, from: until }))
    expect(entries.map((entry) => entry.jobId)).toEqual([jobId(1)])
    await two.close()
  },
)

onFile("keeping the time costs no commit: what writes nothing else writes nothing", async (machine, path) => {
  const { close, database, jobs } = await machine.open(path)
  await machine.run(jobs.createJobs([newJob(1, { delayMs: hour })]))
  const changes = () => database.connection.prepare("SELECT total_changes() AS n").get([])
  // A claim that finds nothing in a lane records that once.
  await machine.run(jobs.claimJobs(request()))
  const before = changes()
  machine.pass(1_000)
  await machine.run(jobs.claimJobs(request()))
  await machine.run(jobs.expireJobs(10))
  await machine.run(jobs.extendLeases([{ jobId: jobId(1), token: 1, leaseDurationMs }]))
  expect(changes()).toEqual(before)
  await machine.run(jobs.createJobs([newJob(2)]))
  expect(changes()).not.toEqual(before)
  await close()
})

onFile("a caller's transaction reads and keeps the same time", async (machine, path) => {
  const { close, database, jobs } = await machine.open(path)
  await machine.run(jobs.createJobs([newJob(1)]))
  const acceptedAt = machine.wallMs
  machine.wallMs -= hour
  const callers = await machine.run(makeSqliteCallerTransactions(database, new CommitWatch(database)))
  const connection = new Sqlite(path)
  connection.exec("BEGIN IMMEDIATE")
  machine.pass(20_000)
  const [created] = await machine.run(callers.createJobs(connection, [newJob(2)]))
  connection.exec("COMMIT")
  connection.close()
  expect(created).toMatchObject({ _tag: "Created", job: { createdAt: acceptedAt + 18_000 } })
  await close()
  const { close: closeAgain, jobs: later } = await machine.open(path)
  const [third] = await machine.run(later.createJobs([newJob(3)]))
  expect(third).toMatchObject({ job: { createdAt: acceptedAt + 18_000 } })
  await closeAgain()
})

onFile(
  "a process that starts after the clock went back continues from the newest job, and also after that job was deleted",
  async (machine, path) => {
    const createdAt = async ({ jobs }: Awaited<ReturnType<Machine["open"]>>, n: number) => {
      const [outcome] = await machine.run(jobs.createJobs([newJob(n)]))
      return outcome?._tag === "Created" ? outcome.job.createdAt : expect.unreachable()
    }
    const first = await machine.open(path)
    const start = await createdAt(first, 1)
    await first.close()
    machine.wallMs -= hour
    const second = await machine.open(path)
    const next = await createdAt(second, 2)
    expect(next).toBeGreaterThanOrEqual(start)
    await machine.run(second.jobs.cancelJobs([jobId(1), jobId(2)]))
    expect(await machine.run(second.jobs.deleteJobs(0, 10))).toMatchObject({ count: 2 })
    await second.close()
    machine.wallMs -= hour
    const third = await machine.open(path)
    expect(await createdAt(third, 3)).toBeGreaterThanOrEqual(next)
    await third.close()
  },
)
