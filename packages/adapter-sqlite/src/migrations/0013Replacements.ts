import type { Migration } from "@kiln/core/ports"

/** Another request always has another key. */
const isNoReplacement = "OLD.status <> 'queued' OR NEW.status <> 'queued' OR NEW.idempotency_key = OLD.idempotency_key"

/** A job that waits for its first attempt may get another request, and remembers the idempotency keys that it had before. */
export const replacements: Migration = {
  name: "0013Replacements",
  sql: `
-- The idempotency keys of requests that were replaced. The job's own key is in its row.
CREATE TABLE kiln_replaced_keys (
  key_id          TEXT    NOT NULL,
  idempotency_key TEXT    NOT NULL,
  fingerprint     TEXT    NOT NULL,
  job_seq         INTEGER NOT NULL,
  PRIMARY KEY (key_id, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_replaced_keys_job ON kiln_replaced_keys (job_seq);

CREATE TRIGGER kiln_replaced_keys_go_with_job AFTER DELETE ON kiln_jobs
BEGIN DELETE FROM kiln_replaced_keys WHERE job_seq = OLD.seq; END;

-- As if the index of keys had them, also for a process of the previous version, which does not look here.
CREATE TRIGGER kiln_jobs_key_was_replaced BEFORE INSERT ON kiln_jobs
WHEN EXISTS (SELECT 1 FROM kiln_replaced_keys WHERE key_id = NEW.key_id AND idempotency_key = NEW.idempotency_key)
BEGIN SELECT RAISE(IGNORE); END;

DROP TRIGGER kiln_jobs_origin_is_final;
CREATE TRIGGER kiln_jobs_origin_is_final BEFORE UPDATE OF id, project_id, key_id, mode, kind, created_at ON kiln_jobs
BEGIN SELECT RAISE(ABORT, 'the fields a job was created with cannot be changed'); END;

CREATE TRIGGER kiln_jobs_replaced_while_queued BEFORE UPDATE OF
  lane_id, kind_version, kept, idempotency_key, fingerprint, price_id, queue_limit_ms, run_limit_ms ON kiln_jobs
WHEN ${isNoReplacement}
BEGIN SELECT RAISE(ABORT, 'the fields a job was created with cannot be changed, except before its first attempt, by another request'); END;

DROP TRIGGER kiln_jobs_request_is_final;
CREATE TRIGGER kiln_jobs_request_is_final BEFORE UPDATE OF request ON kiln_jobs
WHEN (NEW.request IS NOT NULL OR NEW.retained = OLD.retained) AND (${isNoReplacement})
BEGIN SELECT RAISE(ABORT, 'the fields a job was created with cannot be changed, except before its first attempt, by another request'); END;

DROP TRIGGER kiln_jobs_upload_goes_to_a_retry;
CREATE TRIGGER kiln_jobs_upload_goes_to_a_retry BEFORE UPDATE OF upload_id ON kiln_jobs
WHEN (${isNoReplacement}) AND
  (NEW.upload_id IS NOT NULL OR OLD.upload_id IS NULL OR OLD.status <> 'failed' OR OLD.retained <> 'kept')
BEGIN SELECT RAISE(ABORT, 'only a failed job can release its upload'); END;

CREATE TRIGGER kiln_jobs_take_uploads BEFORE UPDATE OF upload_id ON kiln_jobs
WHEN NEW.upload_id IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM kiln_uploads WHERE id = NEW.upload_id AND blob_key IS NOT NULL AND erased = 0 AND
    project_id = NEW.project_id AND key_id = NEW.key_id AND mode = NEW.mode)
BEGIN SELECT RAISE(ABORT, 'a job can consume only an upload that has arrived and belongs to its key'); END;
`,
}
