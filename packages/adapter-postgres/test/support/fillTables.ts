import type pg from "pg"

/** Numbers of rows, one statement for each table; ids are unlike those of fixtures. */
const fillings = (rows: number): ReadonlyArray<string> => [
  `INSERT INTO "kiln".uploads (id, project_id, key_id, mode, format, declared_seconds, created_at, expires_at, usable_until, token,
     transfers, sweep_at)
   SELECT 'upl_filled' || lpad(n::text, 20, '0'), 'prj_filled' || n % 2000, 'key_filled' || n % 2000, 'sandbox', 'wav', 1, 1, 1, 1, 1, 1,
     CASE WHEN n % 2 = 0 THEN 9000000000000000 END
   FROM generate_series(1, ${rows}) AS n`,
  `WITH added AS (
     INSERT INTO "kiln".jobs (id, project_id, key_id, mode, kind, kind_version, priority, kept, upload_id, idempotency_key, fingerprint,
       created_at, queue_limit_ms, run_limit_ms)
     SELECT 'job_filleda' || lpad(n::text, 19, '0'), 'prj_filled' || n % 2000, 'key_filled' || n % 2000, 'sandbox', 'filled', 1, 0, '{}',
       CASE WHEN n % 2 = 1 THEN 'upl_filled' || lpad(n::text, 20, '0') END, 'filled ' || n, repeat('f', 64),
       store_time.now - 1000000 + n, 86400000, 1800000
     FROM generate_series(1, ${rows}) AS n, (SELECT "kiln".store_time() AS now) AS store_time
     RETURNING *)
   INSERT INTO "kiln".results (job_seq, job_id, project_id, kind, mode, created_at, status, token, ran_ms, waited_ms, attempts,
     failures, lost_workers, finished_at, output)
   SELECT seq, id, project_id, kind, mode, created_at, 'done', 2, 1000, 10, 1, 0, 0, created_at + 500000, '{}'
   FROM added`,
  `INSERT INTO "kiln".lanes (project_id, kind, kind_version, mode, next_at)
   SELECT 'prj_filled' || n, 'filled', 1, 'sandbox', 0 FROM generate_series(0, 1999) AS n`,
  `WITH added AS (
     INSERT INTO "kiln".jobs (id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key, fingerprint, created_at,
       queue_limit_ms, run_limit_ms, request)
     SELECT 'job_filledb' || lpad(n::text, 19, '0'), 'prj_filled' || CASE WHEN n % 2 = 0 THEN 0 ELSE n % 2000 END, 'key_filled' || n % 2000, 'sandbox', 'filled', 1, 0, '{}',
       'waiting ' || n, repeat('f', 64), store_time.now - 200000 + n, 86400000, 1800000, '{}'
     FROM generate_series(1, ${rows}) AS n, (SELECT "kiln".store_time() AS now) AS store_time
     RETURNING *)
   INSERT INTO "kiln".queue (id, job_seq, lane_id, project_id, kind, mode, priority, created_at, queue_limit_ms, run_limit_ms,
     status, token, held, claimable_at, deadline_at, phase_started_at, ran_ms, waited_ms, attempts, failures, lost_workers)
   SELECT added.id, added.seq, lanes.id, added.project_id, added.kind, added.mode, added.priority, added.created_at, added.queue_limit_ms,
     added.run_limit_ms, 'queued', 0, false, added.created_at, added.created_at + 86400000, added.created_at, 0, 0, 0, 0, 0
   FROM added JOIN "kiln".lanes ON lanes.project_id = added.project_id AND lanes.kind = added.kind`,
  `INSERT INTO "kiln".files (id, job_seq, name, blob_key, media_type, bytes, sha256)
   SELECT 'file_' || job_id, job_seq, 'a', job_id, 'audio/wav', 1, repeat('f', 64) FROM "kiln".results WHERE kind = 'filled'`,
  `INSERT INTO "kiln".checkpoints (job_id, step, value) SELECT id, 'a', '1' FROM "kiln".queue WHERE kind = 'filled'`,
  `INSERT INTO "kiln".charges (job_id, project_id, key_id, kind, currency, amount, line_items, charged_at)
   SELECT job_id, project_id, 'key_filled', kind, 'usd', '1', '[]', 1 FROM "kiln".results WHERE kind = 'filled'`,
  `INSERT INTO "kiln".attempts (job_seq, number, error_code, message, started_at, duration_ms, worker)
   SELECT job_seq, 1, 'internal_error', 'm', 1, 1, 'w' FROM "kiln".results WHERE kind = 'filled'`,
  `INSERT INTO "kiln".waits (job_seq, first_attempt, last_attempt, count, reason, first_at, last_at)
   SELECT job_seq, 1, 1, 1, 'delayed', 1, 1 FROM "kiln".results WHERE kind = 'filled'`,
  `INSERT INTO "kiln".job_labels (label, created_at, job_id, job_seq)
   SELECT 'filled ' || job_seq % 100, created_at, job_id, job_seq FROM "kiln".results WHERE kind = 'filled'`,
  `INSERT INTO "kiln".job_scopes (scope, job_seq) SELECT 'filled ' || job_seq, job_seq FROM "kiln".results WHERE kind = 'filled'`,
  `INSERT INTO "kiln".deliveries (job_id, kind, due_at, attempts, token)
   SELECT job_id, kind, 9000000000000000, 0, 0 FROM "kiln".results WHERE kind = 'filled'`,
  `INSERT INTO "kiln".purges (blob_prefix, recorded_at, failures)
   SELECT 'filled/' || n, 1, 9 FROM generate_series(1, ${rows}) AS n`,
  `INSERT INTO "kiln".spending (owner, entry, currency, amount)
   SELECT 'filled' || n % 2000, 'filled ' || n, 'usd', '1' FROM generate_series(1, ${rows}) AS n`,
  `INSERT INTO "kiln".rate_buckets (bucket, state, full_at)
   SELECT 'filled ' || n, '', 9000000000000000 FROM generate_series(1, ${rows}) AS n`,
]

/** Tables that grow with the load, or with the number of callers. */
export const growing = [
  "jobs",
  "results",
  "queue",
  "lanes",
  "checkpoints",
  "files",
  "uploads",
  "charges",
  "attempts",
  "waits",
  "job_labels",
  "job_scopes",
  "deliveries",
  "purges",
  "spending",
  "rate_buckets",
] as const

/** Adds so many rows to each growing table, in lanes and of callers of their own, while triggers are off. */
export const fillTables = async (client: pg.ClientBase, rows: number): Promise<void> => {
  await client.query("SET session_replication_role = replica")
  for (const sql of fillings(rows)) await client.query(sql)
  await client.query("RESET session_replication_role")
}
