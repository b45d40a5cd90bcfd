import { Effect } from "effect"
import { TestClock } from "effect/testing"
import pg from "pg"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { type ConcurrencyLimits, isLimiting, type Job, type JobMode, priorityOfRank, ranks } from "@kiln/core/domain"
import { type ClaimRequest, JobStore, type Runnable } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { clientConfig } from "../../src/connection/pool.ts"
import { connectionOptions } from "../../src/connection/options.ts"
import { jobOf, jobsBySeq } from "../../src/jobs/jobRow.ts"
import { takeJobs } from "../../src/jobs/takeJobs.ts"
import { failAbandoned } from "../../src/jobs/unreadableJobs.ts"
import { LanePositions } from "../../src/jobs/LanePositions.ts"
import { Session, Transaction } from "../../src/connection/Session.ts"
import { openStores } from "../faults/support/openStores.ts"
import { takeOverClock } from "./virtualTime.ts"

const { keyId, newJob, noLimits, projectId } = fixtures

const now = 1_000_000
const kinds = ["speech_synthesis", "image_generation"] as const
const modes: ReadonlyArray<JobMode> = ["sandbox", "live"]
const projects = 3

/** Numbers from 0 up to 1, always the same for a seed (mulberry32). */
const numbersOf = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

type Numbers = () => number

const upTo = (random: Numbers, most: number): number => Math.floor(random() * (most + 1))

const randomLimits = (random: Numbers): ConcurrencyLimits => {
  if (random() < 0.4) return noLimits
  return {
    perKind: Object.fromEntries(kinds.filter(() => random() < 0.4).map((kind) => [kind, 1 + upTo(random, 8)])),
    perProject: random() < 0.4 ? 0 : 1 + upTo(random, 5),
    ...(random() < 0.4 && { projects: { [projectId(upTo(random, 2))]: upTo(random, 4) } }),
  }
}

const randomRequest = (random: Numbers): ClaimRequest => {
  const all = kinds.flatMap((kind) => modes.map((mode): Runnable => ({ kind, kindVersion: 1, mode })))
  const perProject = upTo(random, 3)
  const worker = {
    free: { sandbox: upTo(random, 8), live: upTo(random, 8) },
    perProject,
    held: modes.flatMap((mode) =>
      Array.from({ length: projects }, (_, n) => ({ mode, projectId: projectId(n), count: upTo(random, 2) })),
    ),
    ...(random() < 0.5 && {
      quotas: kinds.flatMap((kind) =>
        modes.filter(() => random() < 0.5).map((mode) => ({ kind, mode, count: upTo(random, 6) })),
      ),
    }),
  }
  return {
    runnable: all.filter(() => random() < 0.8),
    limits: randomLimits(random),
    limit: 1 + upTo(random, 20),
    ...(random() < 0.7 && { worker }),
    leaseDurationMs: 1 + upTo(random, 5_000),
    maxLostWorkers: 1 + upTo(random, 2),
  }
}

/**
 * Jobs of every shape, some with a checkpoint, lanes with bounds that are exact or low, and turns. `lost`: the probability of a job that
 * has lost a worker. `most`: the number of jobs.
 */
const randomize = (lost: number, most: number) => `
UPDATE "kiln".queue SET status = CASE WHEN random() < 0.5 THEN 'queued' ELSE 'processing' END, token = floor(random() * 9),
  attempts = floor(random() * 3), failures = floor(random() * 3), held = false, lost_workers = 0,
  priority = CASE WHEN random() < 0.7 THEN 0 ELSE floor(random() * 11) - 5 END,
  claimable_at = ${now} + 400 - floor(random() * 2000), phase_started_at = ${now} + 100 - floor(random() * 2000),
  deadline_at = ${now} + 3000 - floor(random() * 3500), queue_limit_ms = floor(random() * 4000),
  run_limit_ms = floor(random() * 8000), ran_ms = floor(random() * 4000), waited_ms = floor(random() * 4000);
UPDATE "kiln".queue SET status = 'queued', attempts = 0, failures = 0, ran_ms = 0 WHERE token = 0;
UPDATE "kiln".queue SET status = 'processing', held = random() < 0.5, lost_workers = 1 WHERE token > 0 AND random() < ${lost};
UPDATE "kiln".queue SET status = 'processing', held = true, claimable_at = ${now} + 1 + floor(random() * 2000), deadline_at = ${now} + 4000
  WHERE token > 0 AND random() < ${lost === 0 ? 0 : 0.15};
DELETE FROM "kiln".queue WHERE random() < 0.3;
DELETE FROM "kiln".queue WHERE id NOT IN (
  SELECT id FROM "kiln".queue
  ORDER BY random() < 0.5 OR lane_id <> (SELECT lane_id FROM "kiln".queue ORDER BY random() LIMIT 1), random() LIMIT ${most});
INSERT INTO "kiln".checkpoints SELECT id, 'first', '{"at":1}' FROM "kiln".queue WHERE token > 0 AND random() < 0.3;
UPDATE "kiln".jobs SET priority = queue.priority, queue_limit_ms = queue.queue_limit_ms, run_limit_ms = queue.run_limit_ms
FROM "kiln".queue WHERE queue.job_seq = jobs.seq;
UPDATE "kiln".lanes SET virtual_time = floor(random() * 8), next_at = (
  SELECT min(claimable_at) FROM "kiln".queue WHERE lane_id = lanes.id AND deadline_at > greatest(claimable_at, ${now})
) - CASE WHEN random() < 0.5 THEN 0 ELSE floor(random() * 300) END;
UPDATE "kiln".fairness SET virtual_time = floor(random() * 6);`

/**
 * Every job may run for longer. A job that has run for as long as it may is claimed under a lease that is over, which counts towards no
 * limit. Turns are distributed before that is known, so the claims of other lanes under limits may then be others.
 */
const timeLeft = `
UPDATE "kiln".queue SET run_limit_ms = run_limit_ms + 8000;
UPDATE "kiln".jobs SET run_limit_ms = queue.run_limit_ms FROM "kiln".queue WHERE queue.job_seq = jobs.seq;`

const randomPositions = (random: Numbers): LanePositions => {
  const positions = new LanePositions(60_000)
  const claim = (turns: ReadonlyArray<{ id: number; start: number; count: number }>) => {
    const served = turns.map((turn) => ({ ...turn, group: "" }))
    positions.claimed({ served, visited: [], exhausted: new Set(), clock: upTo(random, 9) }, 0)
  }
  // The first turns are saved at once, the others are only noted.
  claim([{ id: 999, start: 0, count: 1 }])
  if (random() < 0.6)
    claim(
      Array.from({ length: 4 }, () => ({
        id: 1 + upTo(random, 11),
        start: upTo(random, 6),
        count: 1 + upTo(random, 3),
      })),
    )
  return positions
}

/** The jobs as they are in the database, without checkpoints, which triggers remove. */
const jobsIn = async (session: Session, seqs: ReadonlyArray<number>): Promise<ReadonlyArray<Job>> =>
  (
    await session.batch(
      jobsBySeq,
      seqs.map((seq) => ({ seq })),
      {},
    )
  ).map(jobOf)

const withoutCheckpoints = (jobs: Iterable<Job>) => [...jobs].map(({ checkpoints: _, ...job }) => job)

interface LaneRow extends Pick<Job, "projectId" | "kind" | "kindVersion" | "mode"> {
  readonly id: number
  readonly turn: number
}

/** The same jobs and lanes, as a memory store saves them. */
const savedInMemory = async (client: pg.Client, jobs: ReadonlyArray<Job>, positions: LanePositions) => {
  const lanes = await client.query<LaneRow>(
    `SELECT id, project_id AS "projectId", kind, kind_version AS "kindVersion", mode, virtual_time AS turn FROM "kiln".lanes ORDER BY id`,
  )
  const clock = await client.query<{ clock: number }>(`SELECT virtual_time AS clock FROM "kiln".fairness`)
  return JSON.stringify({
    virtualTime: positions.clock(clock.rows[0]?.clock ?? 0),
    jobs: jobs.map((job) => [job.id, job]),
    lanes: lanes.rows.map(({ id, turn, ...lane }) => [
      `${lane.projectId} ${lane.mode} ${lane.kindVersion} ${lane.kind}`,
      {
        ...lane,
        virtualTime: positions.turn(id, turn),
        unfinished: jobs.filter((job) => isIn(job, lane)).map((job) => job.id),
      },
    ]),
    namedSecrets: [],
    ledgerClosedUntil: 0,
    lineage: { version: 0, document: null },
  })
}

const isIn = (job: Job, { kind, mode, projectId: project }: Omit<LaneRow, "id" | "turn">): boolean =>
  job.kind === kind && job.mode === mode && job.projectId === project

/** Claims in a memory store, which serves jobs one by one, and returns the jobs as they are then. */
const claimInMemory = (saved: string, request: ClaimRequest) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(now)
    let last = saved
    const stores = MemoryStores.layerPersisted({
      capabilities: { durable: true, multiProcess: false },
      load: Effect.succeed(saved),
      save: (text) => Effect.sync(() => void (last = text)),
    })
    const result = yield* Effect.provide(
      Effect.flatMap(JobStore, (jobs) => jobs.claimJobs(request)),
      stores,
    )
    const { jobs } = JSON.parse(last) as { readonly jobs: ReadonlyArray<readonly [string, Job]> }
    return { ...result, jobs: jobs.map(([, job]) => job) }
  }).pipe(Effect.provide(TestClock.layer()), Effect.runPromise)

/** A database with jobs in many lanes, on which claims are compared. */
export const openComparison = async (server?: string) => {
  const database = await freshDatabase(server === undefined ? {} : { server })
  await using stores = await openStores({ url: database.url })
  const lanes = kinds.flatMap((kind) =>
    modes.flatMap((mode) => Array.from({ length: projects }, (_, n) => ({ kind, mode, n }))),
  )
  const jobs = lanes.flatMap(({ kind, mode, n }, lane) =>
    Array.from({ length: 8 }, (_, at) =>
      newJob(lane * 100 + at, {
        kind,
        mode,
        gate: null,
        projectId: projectId(n),
        keyId: keyId(n),
        priority: priorityOfRank(ranks[at] ?? 0) ?? "normal",
      }),
    ),
  )
  await Effect.runPromise(stores.jobs.createJobs(jobs))
  await takeOverClock(database.url)
  const client = new pg.Client({
    ...clientConfig(connectionOptions({ url: database.url }), "comparison"),
    pipeline: true,
  })
  await client.connect()
  await client.query(`UPDATE "kiln".test_clock SET now = ${now}`)
  const wire = { schema: "kiln", prepared: true, lockTimeoutMs: 3_000 }

  /** Claims from the same random state, with at most so many jobs, in one statement and in memory, and returns both. */
  const compare = async (seed: number, mostJobs: number = jobs.length) => {
    const random = numbersOf(seed)
    await client.query(`BEGIN; SET LOCAL session_replication_role = replica; SELECT setseed(${random()})`)
    try {
      const request = randomRequest(random)
      await client.query(randomize(random() < 0.3 ? 0.1 : 0, mostJobs))
      if (isLimiting(request.limits)) await client.query(timeLeft)
      const positions = randomPositions(random)
      if (random() < 0.5) positions.found(2)
      const session = new Session(client, wire)
      const { rows } = await client.query<{ seq: number }>(`SELECT job_seq AS seq FROM "kiln".queue ORDER BY 1`)
      const seqs = rows.map(({ seq }) => seq)
      const saved = await savedInMemory(client, await jobsIn(session, seqs), positions)
      const { abandoned, claims, jobs: after, nextInMs } = await claimInMemory(saved, request)
      const taken = await takeJobs(session, positions, request, { claim: 1, repeated: false })
      if (taken.abandoned.length > 0)
        await failAbandoned(new Transaction(client, wire, now), taken.abandoned, request.maxLostWorkers)
      // When to claim next is a lower bound, and 0 only if there is more.
      const isEarly = (taken.nextInMs ?? Infinity) <= (nextInMs ?? Infinity)
      return {
        request,
        lanes: taken.served.length,
        expected: {
          claims,
          abandoned: abandoned.toSorted(),
          jobs: withoutCheckpoints(after),
          isMore: nextInMs === 0,
          nextInMs,
        },
        found: {
          claims: taken.claims,
          abandoned: taken.abandoned.toSorted(),
          jobs: withoutCheckpoints(await jobsIn(session, seqs)),
          isMore: taken.nextInMs === 0,
          nextInMs: isEarly ? nextInMs : taken.nextInMs,
        },
      }
    } finally {
      await client.query("ROLLBACK")
    }
  }

  const close = async () => {
    await client.end()
    await database.dispose()
  }
  return { client, compare, wire, close, [Symbol.asyncDispose]: close }
}
