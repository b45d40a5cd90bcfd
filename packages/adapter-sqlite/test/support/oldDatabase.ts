import Sqlite from "better-sqlite3"
import type { JobMode } from "@kiln/core/domain"
import { fixtures } from "@kiln/conformance"
import { initial } from "../../src/migrations/0001Initial.ts"
import { createMigrationTable } from "../../src/migrate.ts"
import { withoutPrefix } from "../../src/Naming.ts"

/** What the first version of the store writes for a new job: it knows nothing of versions of kinds. */
export const insertAsBefore = (database: Sqlite, n: number, now: number, mode: JobMode = "sandbox"): void => {
  const { id, idempotencyKey, fingerprint, keyId, kind, limits, projectId, request } = fixtures.newJob(n)
  const lane = [projectId, kind, mode]
  const origin = [id, keyId, idempotencyKey, fingerprint, now, limits.queueLimitMs, limits.runLimitMs]
  const state = [now, now + limits.queueLimitMs, now]
  database
    .prepare("INSERT INTO lanes (project_id, kind, mode, next_at) VALUES (?, ?, ?, NULL) ON CONFLICT DO NOTHING")
    .run(lane)
  database.prepare("UPDATE lanes SET next_at = ? WHERE project_id = ? AND kind = ? AND mode = ?").run([now, ...lane])
  database
    .prepare(
      `INSERT INTO jobs (id, lane_id, project_id, key_id, mode, kind, idempotency_key, fingerprint, created_at,
         queue_limit_ms, run_limit_ms, status, token, held, claimable_at, deadline_at, phase_started_at,
         ran_ms, waited_ms, attempts, failures, lost_workers)
       SELECT ?, id, project_id, ?, mode, kind, ?, ?, ?, ?, ?, 'queued', 0, 0, ?, ?, ?, 0, 0, 0, 0, 0
       FROM lanes WHERE project_id = ? AND kind = ? AND mode = ?`,
    )
    .run([...origin, ...state, ...lane])
  database
    .prepare("INSERT INTO job_data (job_seq, request) SELECT seq, ? FROM jobs WHERE id = ?")
    .run([JSON.stringify(request), id])
}

/** A worker of the first version takes a job that nobody has. */
export const claimAsBefore = (database: Sqlite, n: number, leaseEndsAt: number): void => {
  database
    .prepare(
      `UPDATE jobs SET status = 'processing', held = 1, token = token + 1, attempts = attempts + 1,
         claimable_at = ?, deadline_at = ? + queue_limit_ms
       WHERE id = ?`,
    )
    .run([leaseEndsAt, leaseEndsAt, fixtures.jobId(n)])
}

/** The lanes in which a worker of the first version looks for work of the kind of these jobs. */
export const lanesAsBefore = (database: Sqlite): ReadonlyArray<unknown> =>
  database
    .prepare("SELECT id FROM lanes WHERE kind = ? AND mode = ? AND next_at IS NOT NULL")
    .all([fixtures.newJob(1).kind, fixtures.newJob(1).mode])

/** What a worker of the first version finds claimable, in the order in which it takes it. */
export const headAsBefore = (database: Sqlite, now: number): ReadonlyArray<unknown> =>
  database
    .prepare(
      `SELECT id FROM jobs WHERE lane_id = (SELECT id FROM lanes) AND claimable_at <= ? AND +deadline_at > ?
       ORDER BY claimable_at, id`,
    )
    .all([now, now])
    .map((row) => (row as { readonly id: unknown }).id)

/** What the first version writes for a worker: it knows nothing of providers. */
export const publishAsBefore = (database: Sqlite, workerId: string, liveKinds: ReadonlyArray<string>, until: number) =>
  void database
    .prepare(
      `INSERT INTO workers (worker_id, live_kinds, live_until) VALUES (?, ?, ?)
       ON CONFLICT (worker_id) DO UPDATE SET live_kinds = excluded.live_kinds, live_until = excluded.live_until`,
    )
    .run([workerId, JSON.stringify(liveKinds), until])

/** What the first version reads of the workers. */
export const workersAsBefore = (database: Sqlite, now: number): ReadonlyArray<unknown> =>
  database.prepare("SELECT worker_id, live_kinds FROM workers WHERE live_until > ?").all([now])

/** A worker of the first version ends a live job that it holds, with `fixtures.charge`. */
export const completeAsBefore = (database: Sqlite, n: number, finishedAt: number): void => {
  database
    .prepare(
      `UPDATE jobs SET status = 'done', held = 0, token = token + 1, claimable_at = NULL, deadline_at = NULL,
         phase_started_at = NULL, finished_at = ?, charge = ?, output = '{}'
       WHERE id = ? AND held = 1`,
    )
    .run([finishedAt, JSON.stringify(fixtures.charge), fixtures.jobId(n)])
}

/** A database as the first version made it, without anything in it. Its tables have no prefix. */
export const makeEmptyOldDatabase = (path: string, now: number): void => {
  const database = new Sqlite(path)
  database.pragma("journal_mode = WAL")
  database.exec(createMigrationTable)
  database.exec(withoutPrefix(initial.sql))
  database.prepare("INSERT INTO kiln_migrations (name, applied_at) VALUES (?, ?)").run([initial.name, now])
  database.close()
}

/** The same with jobs as that version left them: 1 and 2 queued, 3 in the hands of a worker until then. */
export const makeOldDatabase = (path: string, now: number, leaseEndsAt: number): void => {
  makeEmptyOldDatabase(path, now)
  const database = new Sqlite(path)
  for (const n of [1, 2, 3]) insertAsBefore(database, n, now)
  claimAsBefore(database, 3, leaseEndsAt)
  database.close()
}
