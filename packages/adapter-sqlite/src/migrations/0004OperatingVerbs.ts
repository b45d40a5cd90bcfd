import type { Migration } from "@kiln/core/ports"

/**
 * Jobs have a place among those of their lane, and fields of their request that stay when its data is erased. The index of
 * ready jobs is one walk for each of the four ranks, so that what is not yet claimable is never stepped over; a process of
 * the version before sorts a lane's jobs instead, and takes them in order of arrival. Lists of jobs walk their own index, which
 * is written when a job is created and deleted, and by none of its moves.
 */
const columns = `
ALTER TABLE kiln_jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1 AND 2);
ALTER TABLE kiln_jobs ADD COLUMN kept TEXT NOT NULL DEFAULT '{}';
-- Set with the first job of another priority than normal: in a lane without any, a claim looks for no others.
ALTER TABLE kiln_lanes ADD COLUMN prioritized INTEGER NOT NULL DEFAULT 0 CHECK (prioritized IN (0, 1));

DROP INDEX kiln_jobs_ready;
CREATE INDEX kiln_jobs_ready ON kiln_jobs (lane_id, priority, claimable_at, id) WHERE claimable_at IS NOT NULL;
CREATE INDEX kiln_jobs_by_time ON kiln_jobs (created_at, id);

-- Kinds none of whose jobs is claimed.
CREATE TABLE kiln_paused_kinds (
  kind TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
`

/**
 * The one thing that may change of what a job was asked for: a failed job lets go of its upload, so that a retry can consume
 * it in the same transaction. The upload is in the sweep's way again, until the new job takes it out as any job does.
 */
const uploadMoves = `
DROP TRIGGER kiln_jobs_origin_is_final;
CREATE TRIGGER kiln_jobs_origin_is_final BEFORE UPDATE OF
  id, lane_id, project_id, key_id, mode, kind, idempotency_key, fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms, priority, kept ON kiln_jobs
BEGIN SELECT RAISE(ABORT, 'what a job was asked for never changes'); END;

CREATE TRIGGER kiln_jobs_upload_goes_to_a_retry BEFORE UPDATE OF upload_id ON kiln_jobs
WHEN NEW.upload_id IS NOT NULL OR OLD.upload_id IS NULL OR OLD.status <> 'failed' OR OLD.retained <> 'kept'
BEGIN SELECT RAISE(ABORT, 'only a failed job lets go of its upload'); END;

CREATE TRIGGER kiln_jobs_upload_is_unused AFTER UPDATE OF upload_id ON kiln_jobs
BEGIN UPDATE kiln_uploads SET sweep_at = usable_until WHERE id = OLD.upload_id; END;
`

export const operatingVerbs: Migration = { name: "0004OperatingVerbs", sql: columns + uploadMoves }
