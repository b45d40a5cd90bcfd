import { until } from "@kiln/service-lab"
import { audit } from "./audit.ts"
import { Lab, leaseMs, type Server } from "./Lab.ts"
import { randomFrom } from "./random.ts"
import { RetryingClient, type Wish, wishKinds } from "./RetryingClient.ts"
import { sum, type Told, violationsOf } from "./stormChecks.ts"

export interface StormOptions {
  readonly jobs: number
  /** How often one of the two processes is killed; the storm ends earlier when all jobs are done. */
  readonly kills: number
  /** Decides the jobs and the schedule of the kills; what they hit is up to the machine. */
  readonly seed: number
}

export interface StormReport {
  readonly kills: number
  readonly acknowledged: number
  readonly done: number
  readonly failed: number
  readonly charges: number
  readonly attempts: number
  readonly lostWorkers: number
  readonly calls: number
  readonly seconds: number
  /** Every way in which a promise was broken; empty when all were kept. */
  readonly violations: ReadonlyArray<string>
}

const clients = 8

const wishesFrom = (random: () => number, count: number): ReadonlyArray<Wish> =>
  Array.from({ length: count }, (_, index) => ({
    kind: wishKinds[Math.floor(random() * wishKinds.length)] ?? "speech",
    idempotencyKey: `wish-${index}`,
    text: `wait:${Math.floor(100 + 500 * random())}`,
    sample: Math.floor(256 * random()),
  }))

/** Kills one of the processes, again and again, and starts another in its place. */
const killAgainAndAgain = async (
  lab: Lab,
  servers: Array<Server>,
  options: StormOptions,
  isOver: () => boolean,
): Promise<void> => {
  const random = randomFrom(options.seed + 1)
  const engine = {
    orphanIntervalMs: 250,
    upload: { leaseDurationMs: leaseMs },
    // More than a job can need: the test is about lost jobs, not about jobs that exhaust their attempts.
    attempts: { maxLostWorkers: options.kills + 1 },
  }
  const start = () => lab.start({ engine, env: { KILN_CONCURRENCY: "4" } })
  servers.push(await start(), await start())
  for (let kills = 0; kills < options.kills && !isOver(); kills++) {
    // Not a wait for a condition: the seed decides this pause.
    await new Promise((resolve) => setTimeout(resolve, 100 + 500 * random()))
    const [victim] = servers.splice(random() < 0.5 ? 0 : 1, 1)
    await victim?.crash()
    servers.push(await start())
  }
}

/**
 * Two processes on one data directory, one of them killed and replaced again and again, while clients that retry create
 * jobs of every kind and wait for their ends. Says what was counted, and what of the promises was broken.
 */
export const stormOfKills = async (options: StormOptions): Promise<StormReport> => {
  await using lab = await Lab.open()
  const startedAt = performance.now()
  const random = randomFrom(options.seed)
  const wishes = wishesFrom(random, options.jobs)
  const servers: Array<Server> = []
  const told: Array<Told> = []
  const left = [...wishes]
  let clientsAtWork = clients
  const killing = killAgainAndAgain(lab, servers, options, () => clientsAtWork === 0)
  const client = new RetryingClient(() => servers.map((server) => server.client), random)
  const work = async () => {
    try {
      for (let wish = left.shift(); wish !== undefined; wish = left.shift()) {
        const ids = await client.create(wish)
        told.push({ wish, ids, status: (await client.finished(wish, ids[0] ?? "")).status })
      }
    } finally {
      clientsAtWork -= 1
    }
  }
  const ends = await Promise.allSettled([killing, ...Array.from({ length: clients }, work)])
  const failures = ends.flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []))
  // A sweep runs soon; anything left after it is a violation.
  await until(async () => ((await audit(lab)).unnamed.length === 0 ? true : undefined)).catch(() => false)
  const found = await audit(lab)
  return {
    kills: lab.started - 2,
    acknowledged: told.length,
    done: found.jobs.filter(({ status }) => status === "done").length,
    failed: found.jobs.filter(({ status }) => status === "failed").length,
    charges: found.chargedJobs.length,
    attempts: sum(found.jobs.map(({ attempts }) => attempts)),
    lostWorkers: sum(found.jobs.map(({ lostWorkers }) => lostWorkers)),
    calls: lab.calls().filter(({ event }) => event === "begun").length,
    seconds: Math.round((performance.now() - startedAt) / 1_000),
    violations: [...failures, ...violationsOf(lab, told, wishes, found)],
  }
}
