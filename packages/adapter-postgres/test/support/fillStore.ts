import pg from "pg"

/** How many jobs a store is to hold that nothing will ever touch again, and how many that wait. */
export interface Filling {
  readonly finished: number
  readonly backlog: number
}

/**
 * Fills a migrated store in two statements, as no verb could in this time. The triggers are for those who make mistakes, and
 * are off meanwhile: the session must be a superuser's. Everything is one project's, and the backlog is claimable now.
 */
export const fillStore = async (url: string, { backlog, finished }: Filling): Promise<void> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query("SET session_replication_role = replica")
    await client.query(
      `WITH added AS (
         INSERT INTO "kiln".jobs (id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key, fingerprint,
           created_at, queue_limit_ms, run_limit_ms)
         SELECT 'job_finished' || lpad(n::text, 18, '0'), 'prj_00000000000000000000000001', 'key_00000000000000000000000001',
           'sandbox', 'speech_synthesis', 1, 0, '{}', 'finished ' || n, repeat('f', 64), store_time.now - 1000000 + n,
           86400000, 1800000
         FROM generate_series(1, $1) AS n, (SELECT "kiln".store_time() AS now) AS store_time
         RETURNING *)
       INSERT INTO "kiln".results (job_seq, job_id, project_id, kind, mode, created_at, status, token, ran_ms, waited_ms, attempts,
         failures, lost_workers, finished_at, output)
       SELECT seq, id, project_id, kind, mode, created_at, 'done', 2, 1000, 10, 1, 0, 0, created_at + 500000,
         '{"text":"' || repeat('x', 200) || '"}'
       FROM added`,
      [finished],
    )
    await client.query(
      `WITH lane AS (
         INSERT INTO "kiln".lanes (project_id, kind, kind_version, mode, next_at)
         VALUES ('prj_00000000000000000000000001', 'speech_synthesis', 1, 'sandbox', 0)
         RETURNING id),
       added AS (
         INSERT INTO "kiln".jobs (id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key, fingerprint, created_at,
           queue_limit_ms, run_limit_ms, request)
         SELECT 'job_waiting' || lpad(n::text, 19, '0'), 'prj_00000000000000000000000001', 'key_00000000000000000000000001',
           'sandbox', 'speech_synthesis', 1, 0, '{}', 'waiting ' || n, repeat('f', 64), store_time.now - 200000 + n, 86400000, 1800000,
           '{"input":"' || repeat('y', 200) || '"}'
         FROM generate_series(1, $1) AS n, (SELECT "kiln".store_time() AS now) AS store_time
         RETURNING *)
       INSERT INTO "kiln".queue (id, job_seq, lane_id, project_id, kind, mode, priority, created_at, queue_limit_ms, run_limit_ms,
         status, token, held, claimable_at, deadline_at, phase_started_at, ran_ms, waited_ms, attempts, failures, lost_workers)
       SELECT added.id, added.seq, lane.id, added.project_id, added.kind, added.mode, added.priority, added.created_at, added.queue_limit_ms,
         added.run_limit_ms, 'queued', 0, false, added.created_at, added.created_at + 86400000, added.created_at, 0, 0, 0, 0, 0
       FROM added, lane`,
      [backlog],
    )
    await client.query("ANALYZE")
  } finally {
    await client.end()
  }
}
