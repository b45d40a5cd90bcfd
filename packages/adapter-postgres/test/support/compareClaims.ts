import { Effect } from "effect"
import { TestClock } from "effect/testing"
import pg from "pg"
import { freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import type { ConcurrencyLimits, Job, JobMode } from "@kiln/core/domain"
import { isLimiting, priorityOfRank, ranks } from "@kiln/core/rules"
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

interface QueuedRow {
  readonly id: string
  readonly laneId: number
}

/** A job of any shape. `lost`: the probability that it has lost a worker. */
const randomJob = (random: Numbers, lost: number) => {
  const token = upTo(random, 8)
  const started = token > 0
  const hasLostWorker = started && random() < lost
  const isHeld = started && lost > 0 && random() < 0.15
  const status = random() < 0.5 ? "queued" : "processing"
  return {
    status: !started ? "queued" : hasLostWorker || isHeld ? "processing" : status,
    token,
    attempts: started ? upTo(random, 2) : 0,
    failures: started ? upTo(random, 2) : 0,
    held: isHeld || (hasLostWorker && random() < 0.5),
    lost_workers: hasLostWorker ? 1 : 0,
    priority: random() < 0.7 ? 0 : upTo(random, 10) - 5,
    claimable_at: isHeld ? now + 1 + upTo(random, 1_999) : now + 400 - upTo(random, 1_999),
    phase_started_at: now + 100 - upTo(random, 1_999),
    deadline_at: isHeld ? now + 4_000 : now + 3_000 - upTo(random, 3_499),
    queue_limit_ms: upTo(random, 3_999),
    run_limit_ms: upTo(random, 7_999),
    ran_ms: started ? upTo(random, 3_999) : 0,
    waited_ms: upTo(random, 3_999),
    checkpoint: started && random() < 0.3,
  }
}

/** At most so many of the rows, often of one lane, without about 3 of 10. */
const randomRows = (random: Numbers, rows: ReadonlyArray<QueuedRow>, most: number): ReadonlyArray<QueuedRow> => {
  const left = rows.filter(() => random() >= 0.3)
  const preferred = left[upTo(random, left.length - 1)]?.laneId
  return left
    .map((row) => ({ row, at: (random() < 0.5 || row.laneId !== preferred ? 1 : 0) + random() }))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, most)
    .map(({ row }) => row)
}

/**
 * Jobs of every shape, some with a checkpoint, lanes with bounds that are exact or low, and turns. The numbers are drawn here and not by
 * the server, where a row would get the numbers of its place on disk, which vacuum moves: a seed is one state.
 */
const randomize = async (
  client: pg.Client,
  random: Numbers,
  rows: ReadonlyArray<QueuedRow>,
  { lost, most }: { readonly lost: number; readonly most: number },
) => {
  const jobs = randomRows(random, rows, most).map(({ id }) => ({ id, ...randomJob(random, lost) }))
  const laneIds = [...new Set(rows.map(({ laneId }) => laneId))]
  const lanes = laneIds.map((id) => ({ id, turn: upTo(random, 7), early: random() < 0.5 ? 0 : upTo(random, 299) }))
  await client.query(`DELETE FROM "kiln".queue WHERE id <> ALL ($1)`, [jobs.map(({ id }) => id)])
  await client.query(
    `UPDATE "kiln".queue SET status = job.status, token = job.token, attempts = job.attempts, failures = job.failures, held = job.held,
  lost_workers = job.lost_workers, priority = job.priority, claimable_at = job.claimable_at, phase_started_at = job.phase_started_at,
  deadline_at = job.deadline_at, queue_limit_ms = job.queue_limit_ms, run_limit_ms = job.run_limit_ms, ran_ms = job.ran_ms,
  waited_ms = job.waited_ms
FROM json_populate_recordset(NULL::"kiln".queue, $1) AS job WHERE job.id = queue.id`,
    [JSON.stringify(jobs)],
  )
  const withCheckpoint = jobs.filter(({ checkpoint }) => checkpoint).map(({ id }) => id)
  await client.query(`INSERT INTO "kiln".checkpoints SELECT id, 'first', '{"at":1}' FROM unnest($1::text[]) AS id`, [
    withCheckpoint,
  ])
  await client.query(`UPDATE "kiln".jobs SET priority = queue.priority, queue_limit_ms = queue.queue_limit_ms,
  run_limit_ms = queue.run_limit_ms FROM "kiln".queue WHERE queue.job_seq = jobs.seq`)
  await client.query(
    `UPDATE "kiln".lanes SET virtual_time = lane.turn, next_at = (
  SELECT min(claimable_at) FROM "kiln".queue WHERE lane_id = lanes.id AND deadline_at > greatest(claimable_at, ${now})
) - lane.early
FROM json_to_recordset($1) AS lane (id bigint, turn float8, early int) WHERE lane.id = lanes.id`,
    [JSON.stringify(lanes)],
  )
  await client.query(`UPDATE "kiln".fairness SET virtual_time = $1`, [upTo(random, 5)])
}

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
    positions.claimed({ served, visited: [], exhausted: new Set(), hidOthers: false, clock: upTo(random, 9) }, 0)
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
  const { rows } = await client.query<QueuedRow>(`SELECT id, lane_id AS "laneId" FROM "kiln".queue ORDER BY job_seq`)
  const wire = { schema: "kiln", prepared: true, lockTimeoutMs: 3_000 }

  /** Claims from the same random state, with at most so many jobs, in one statement and in memory, and returns both. */
  const compare = async (seed: number, mostJobs: number = jobs.length) => {
    const random = numbersOf(seed)
    await client.query(`BEGIN; SET LOCAL session_replication_role = replica`)
    try {
      const request = randomRequest(random)
      await randomize(client, random, rows, { lost: random() < 0.3 ? 0.1 : 0, most: mostJobs })
      if (isLimiting(request.limits)) await client.query(timeLeft)
      const positions = randomPositions(random)
      if (random() < 0.5) positions.found(2)
      const session = new Session(client, wire)
      const left = await client.query<{ seq: number }>(`SELECT job_seq AS seq FROM "kiln".queue ORDER BY 1`)
      const seqs = left.rows.map(({ seq }) => seq)
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
