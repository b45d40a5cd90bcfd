import { Effect, type Scope } from "effect"
import type pg from "pg"
import { fixtures } from "@kiln/conformance"
import { applyMigrations } from "../../src/migrate.ts"
import { initial } from "../../src/migrations/0001Initial.ts"
import { connect } from "../../src/openDatabase.ts"
import { connected, emptyDatabase } from "./databases.ts"

/** A session of the first version. Its statements are prepared once and stay, whatever becomes of the schema meanwhile. */
export interface OldSession {
  /** Accepts a live job into a lane of its own. */
  readonly insert: (n: number) => Promise<void>
  /** Takes a job that nobody has. */
  readonly claim: (n: number) => Promise<void>
  /** Ends a job that it holds, with `fixtures.charge`, at this store time. */
  readonly complete: (n: number, finishedAt: number) => Promise<void>
  /** Says what a worker can serve live: the first version knows nothing of providers. */
  readonly publish: (workerId: string, liveKinds: ReadonlyArray<string>, ttlMs: number) => Promise<void>
  /** What all workers together can serve live. */
  readonly readLiveKinds: () => Promise<ReadonlyArray<string>>
}

const statements = {
  publish: `WITH forgotten AS (
      DELETE FROM "kiln".workers WHERE worker_id IN (
        SELECT old.worker_id FROM "kiln".workers AS old
        WHERE old.live_until <= (SELECT "kiln".store_time()) AND old.worker_id <> $1 FOR UPDATE SKIP LOCKED))
    INSERT INTO "kiln".workers (worker_id, live_kinds, live_until)
    VALUES ($1, $2, (SELECT "kiln".store_time()) + $3::bigint)
    ON CONFLICT (worker_id) DO UPDATE SET live_kinds = excluded.live_kinds, live_until = excluded.live_until`,
  board: `SELECT (SELECT coalesce(json_agg(agg), '[]') FROM (
      SELECT worker_id AS "workerId", live_kinds AS "liveKinds" FROM "kiln".workers
      WHERE live_until > (SELECT "kiln".store_time())) AS agg) AS workers`,
  lane: `INSERT INTO "kiln".lanes (project_id, kind, kind_version, mode, next_at)
    VALUES ($1, $2, 1, 'live', "kiln".store_time()) RETURNING id`,
  job: `WITH job AS (
      INSERT INTO "kiln".jobs (id, project_id, key_id, mode, kind, kind_version, idempotency_key, fingerprint, created_at,
        queue_limit_ms, run_limit_ms)
      VALUES ($1, $2, $3, 'live', $4, 1, $5, $6, "kiln".store_time(), $7, $8) RETURNING *)
    SELECT seq, created_at FROM job`,
  data: `INSERT INTO "kiln".job_data (job_seq, request) VALUES ($1, $2)`,
  queue: `INSERT INTO "kiln".queue (id, job_seq, lane_id, project_id, kind, mode, created_at, queue_limit_ms, run_limit_ms,
      status, token, held, claimable_at, deadline_at, phase_started_at, ran_ms, waited_ms, attempts, failures, lost_workers)
    SELECT id, seq, $2, project_id, kind, mode, created_at, queue_limit_ms, run_limit_ms,
      'queued', 0, false, created_at, created_at + queue_limit_ms, created_at, 0, 0, 0, 0, 0
    FROM "kiln".jobs WHERE id = $1`,
  claim: `UPDATE "kiln".queue SET status = 'processing', held = true, token = token + 1, attempts = attempts + 1,
      claimable_at = "kiln".store_time() + 60000, deadline_at = "kiln".store_time() + run_limit_ms
    WHERE id = $1 AND NOT held`,
  leave: `DELETE FROM "kiln".queue WHERE id = $1 AND held
    RETURNING token::int8, ran_ms, waited_ms, attempts, failures, lost_workers`,
  done: `UPDATE "kiln".jobs SET status = 'done', token = $2, ran_ms = $3, waited_ms = $4, attempts = $5, failures = $6,
      lost_workers = $7, finished_at = $8, charge = $9, output = '{}'
    WHERE id = $1`,
} as const

const sessionOf = (client: pg.Client): OldSession => {
  const send = async (name: keyof typeof statements, values: ReadonlyArray<unknown> = []) =>
    (await client.query({ name, text: statements[name], values: [...values] })).rows
  const transaction = async (work: () => Promise<void>) => {
    await client.query("BEGIN")
    await work()
    await client.query("COMMIT")
  }
  return {
    insert: (n) =>
      transaction(async () => {
        const { fingerprint, id, idempotencyKey, keyId, kind, limits, request } = fixtures.newLiveJob(n)
        const project = fixtures.projectId(n)
        const [lane] = await send("lane", [project, kind])
        const [row] = await send("job", [
          id,
          project,
          keyId,
          kind,
          idempotencyKey,
          fingerprint,
          limits.queueLimitMs,
          limits.runLimitMs,
        ])
        await send("data", [row?.seq, JSON.stringify(request)])
        await send("queue", [id, lane?.id])
      }),
    claim: async (n) => void (await send("claim", [fixtures.jobId(n)])),
    complete: (n, finishedAt) =>
      transaction(async () => {
        const [row] = await send("leave", [fixtures.jobId(n)])
        const counts = [row?.ran_ms, row?.waited_ms, row?.attempts, row?.failures, row?.lost_workers]
        const token = Number(row?.token) + 1
        await send("done", [fixtures.jobId(n), token, ...counts, finishedAt, JSON.stringify(fixtures.charge)])
      }),
    publish: async (workerId, liveKinds, ttlMs) =>
      void (await send("publish", [workerId, JSON.stringify(liveKinds), ttlMs])),
    readLiveKinds: async () => {
      const [row] = await send("board")
      const workers = row?.workers as ReadonlyArray<{ readonly liveKinds: string }>
      return workers.flatMap(({ liveKinds }) => JSON.parse(liveKinds) as ReadonlyArray<string>).toSorted()
    },
  }
}

/**
 * A database as the first version left it, and a session of that version which stays open: live jobs 1 queued, 2 held and
 * 3 done at the store time 1,000; the worker `old` serves speech.
 */
export const oldDatabase: Effect.Effect<{ readonly url: string; readonly before: OldSession }, unknown, Scope.Scope> =
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* Effect.scoped(
      Effect.flatMap(connect({ url }), ({ connections, database }) =>
        applyMigrations(database, connections.schema, [initial]),
      ),
    )
    const before = sessionOf(yield* connected(url))
    yield* Effect.promise(async () => {
      for (const n of [1, 2, 3]) await before.insert(n)
      for (const n of [2, 3]) await before.claim(n)
      await before.complete(3, 1_000)
      await before.publish("old", ["speech_synthesis"], 60_000)
    })
    return { url, before }
  })
