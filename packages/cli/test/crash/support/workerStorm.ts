import { type Cluster, startCluster } from "@kiln/postgres-lab"
import { type KilnProcess, until } from "@kiln/service-lab"
import { audit } from "./audit.ts"
import { Lab, leaseMs } from "./Lab.ts"
import { postgresStore } from "./LabStore.ts"
import { randomFrom } from "./random.ts"
import { RetryingClient, type Wish, wishKinds } from "./RetryingClient.ts"
import { sum, type Told, violationsOf } from "./stormChecks.ts"

export interface WorkerStormOptions {
  readonly workers: number
  readonly jobs: number
  /** Number of times a worker is killed and restarted. */
  readonly killEveryMs: number
  /** How often at most; it ends earlier when all jobs are done. */
  readonly kills: number
  /** Decides the jobs and whom the kills hit; in what they are hit is up to the machine. */
  readonly seed: number
}

export interface WorkerStormReport {
  readonly kills: number
  readonly restarts: number
  readonly acknowledged: number
  readonly done: number
  readonly charges: number
  readonly attempts: number
  readonly lostWorkers: number
  readonly calls: number
  readonly seconds: number
  /** Every way in which a promise was broken; empty when all were kept. */
  readonly violations: ReadonlyArray<string>
}

const clients = 16

const kinds = wishKinds.filter((kind) => kind !== "voice turn")

/** Kinds of one provider call. One in twenty may bring a file or be drawn: those take longest. */
const wishesFrom = (random: () => number, count: number): ReadonlyArray<Wish> =>
  Array.from({ length: count }, (_, index) => ({
    kind: random() < 0.95 ? "speech" : (kinds[Math.floor(random() * kinds.length)] ?? "speech"),
    idempotencyKey: `wish-${index}`,
    text: `brief wait:${Math.floor(100 * random())}`,
    sample: Math.floor(256 * random()),
  }))

const engine = (jobs: number) => ({
  orphanIntervalMs: 1_000,
  queueCap: 0,
  upload: { leaseDurationMs: leaseMs },
  // More than a job can need: the test is about lost jobs, not about jobs that exhaust their attempts.
  attempts: { maxLostWorkers: jobs },
})

/** Kills one of the workers, again and again, and starts another in its place. Says how many there were. */
const killAgainAndAgain = async (
  workers: Array<KilnProcess | undefined>,
  start: () => Promise<KilnProcess>,
  options: WorkerStormOptions,
  isOver: () => boolean,
): Promise<number> => {
  const random = randomFrom(options.seed + 1)
  const starting: Array<Promise<void>> = []
  let kills = 0
  while (kills < options.kills && !isOver()) {
    // Not to wait for anything: this is the pace of the storm.
    await new Promise((resolve) => setTimeout(resolve, options.killEveryMs))
    const at = Math.floor(random() * workers.length)
    const victim = workers[at]
    // One that was killed already may still be starting.
    if (victim === undefined) continue
    workers[at] = undefined
    await victim.crash()
    kills += 1
    starting.push(start().then((worker) => void (workers[at] = worker)))
  }
  await Promise.all(starting)
  return kills
}

/** Restarts the database as a crash would, once half of the jobs are done. */
const restartHalfway = async (lab: Lab, cluster: Cluster, jobs: number, isOver: () => boolean): Promise<number> => {
  await until(async () => (isOver() || (await doneJobs(lab)) >= jobs / 2 ? true : undefined), hourMs)
  if (isOver()) return 0
  await cluster.restart("immediate")
  return 1
}

const hourMs = 3_600_000

const doneJobs = async (lab: Lab): Promise<number> => {
  // Not more often: it reads every row.
  await new Promise((resolve) => setTimeout(resolve, 500))
  const rows = await lab.store.rows().catch(() => undefined)
  // Out of reach while it restarts.
  return rows?.jobs.filter(({ status }) => status === "done").length ?? 0
}

/**
 * Worker processes on one Postgres, killed and replaced again and again, and a database that crashes in the middle, while
 * clients that retry create jobs. Says what was counted, and what of the promises was broken.
 */
export const stormOfWorkers = async (options: WorkerStormOptions): Promise<WorkerStormReport> => {
  await using cluster = await startCluster()
  await using lab = await Lab.open(postgresStore(cluster.url))
  const startedAt = performance.now()
  const random = randomFrom(options.seed)
  const wishes = wishesFrom(random, options.jobs)
  const api = await lab.start({ engine: engine(options.jobs), env: { KILN_ROLE: "api" } })
  const told: Array<Told> = []
  const left = [...wishes]
  let over = false
  const startOnce = () => lab.startWorker({ engine: engine(options.jobs), env: { KILN_CONCURRENCY: "16" } })
  // As a supervisor does: a worker that starts while the database is away ends at once.
  const start = (): Promise<KilnProcess> =>
    startOnce().catch((error: unknown) => {
      if (over || !/the database does not respond/.test(String(error))) throw error
      return start()
    })
  // A live job is accepted once a worker has said that it can run it.
  const workers = await Promise.all(Array.from({ length: options.workers }, start))
  const killing = killAgainAndAgain(workers, start, options, () => over)
  const client = new RetryingClient(() => [api.client], random)
  const create = async () => {
    for (let wish = left.shift(); wish !== undefined; wish = left.shift())
      told.push({ wish, ids: await client.create(wish), status: undefined })
  }
  const work = async () => {
    try {
      await Promise.all(Array.from({ length: clients }, create))
      await until(async () => ((await doneJobs(lab)) >= options.jobs ? true : undefined), hourMs)
    } finally {
      over = true
    }
  }
  const [kills, restarts, worked] = await Promise.allSettled([
    killing,
    restartHalfway(lab, cluster, options.jobs, () => over),
    work(),
  ])
  const failures = [kills, restarts, worked].flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []))
  // A sweep runs soon; anything left after it is a violation.
  await until(async () => ((await audit(lab)).unnamed.length === 0 ? true : undefined)).catch(() => false)
  const found = await audit(lab)
  return {
    kills: kills.status === "fulfilled" ? kills.value : 0,
    restarts: restarts.status === "fulfilled" ? restarts.value : 0,
    acknowledged: told.length,
    done: found.jobs.filter(({ status }) => status === "done").length,
    charges: found.chargedJobs.length,
    attempts: sum(found.jobs.map(({ attempts }) => attempts)),
    lostWorkers: sum(found.jobs.map(({ lostWorkers }) => lostWorkers)),
    calls: lab.calls().filter(({ event }) => event === "begun").length,
    seconds: Math.round((performance.now() - startedAt) / 1_000),
    violations: [...failures, ...violationsOf(lab, told, wishes, found, true)],
  }
}
