import type { Migration } from "@kiln/core/ports"

/** An operator may change the priority of a job that waits. The rest of what a job was created with stays final. */
export const priorities: Migration = {
  name: "0012Priorities",
  sql: `
DROP TRIGGER kiln_jobs_origin_is_final;
CREATE TRIGGER kiln_jobs_origin_is_final BEFORE UPDATE OF
  id, lane_id, project_id, key_id, mode, kind, kind_version, kept, idempotency_key, fingerprint, price_id, created_at,
  queue_limit_ms, run_limit_ms ON kiln_jobs
BEGIN SELECT RAISE(ABORT, 'the fields a job was created with cannot be changed'); END;

CREATE TRIGGER kiln_jobs_priority_while_waiting BEFORE UPDATE OF priority ON kiln_jobs
WHEN OLD.held <> 0 OR OLD.finished_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'only a job that waits can change its priority'); END;
`,
}
