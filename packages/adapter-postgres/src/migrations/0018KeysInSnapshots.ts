import type { Migration } from "@kiln/core/ports"

/**
 * As before, and a caller's transaction with one snapshot, which may be older than a replacement, meets the key in the index of replaced keys, as it meets
 * the keys of jobs in theirs.
 */
const standInQueue = `
CREATE OR REPLACE FUNCTION "kiln".stand_in_queue() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM added WHERE EXISTS (
      SELECT FROM "kiln".replaced_keys
      WHERE replaced_keys.key_id = added.key_id AND replaced_keys.idempotency_key = added.idempotency_key OFFSET 0)) THEN
    RAISE EXCEPTION 'an idempotency key is bound to a job whose request was replaced' USING ERRCODE = 'KILN2';
  END IF;
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    -- A serialization failure, where a row that the snapshot does not have is in the way.
    INSERT INTO "kiln".replaced_keys (key_id, idempotency_key, fingerprint, job_seq)
    SELECT key_id, idempotency_key, '', 0 FROM added ON CONFLICT DO NOTHING;
    DELETE FROM "kiln".replaced_keys WHERE job_seq = 0;
  END IF;
  INSERT INTO "kiln".queue (id, job_seq, lane_id, project_id, kind, mode, priority, created_at, queue_limit_ms, run_limit_ms,
    status, token, held, claimable_at, deadline_at, phase_started_at, ran_ms, waited_ms, attempts, failures, lost_workers)
  SELECT id, seq, (
      SELECT lanes.id FROM "kiln".lanes WHERE lanes.project_id = added.project_id AND lanes.kind = added.kind AND
        lanes.kind_version = added.kind_version AND lanes.mode = added.mode AND
        NOT EXISTS (SELECT FROM "kiln".results WHERE job_seq = added.seq OFFSET 0)),
    project_id, kind, mode, priority, created_at, queue_limit_ms, run_limit_ms,
    'queued', 0, false, created_at + delay_ms, created_at + delay_ms + queue_limit_ms, created_at + delay_ms, 0, 0, 0, 0, 0
  FROM added;
  RETURN NULL;
END $$;
`

/**
 * As before, and the key of the new request must not be bound by one that was replaced. It was looked up before, and both may have happened since then: another
 * job took the key, and its request was replaced.
 */
const returnToQueue = `
CREATE OR REPLACE FUNCTION "kiln".return_to_queue() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM "kiln".replaced_keys
      WHERE replaced_keys.key_id = NEW.key_id AND replaced_keys.idempotency_key = NEW.idempotency_key) THEN
    RAISE EXCEPTION 'an idempotency key is bound to a job whose request was replaced' USING ERRCODE = 'KILN2';
  END IF;
  INSERT INTO "kiln".queue (id, job_seq, lane_id, project_id, kind, mode, priority, created_at, queue_limit_ms, run_limit_ms,
    status, token, held, claimable_at, deadline_at, phase_started_at, ran_ms, waited_ms, attempts, failures, lost_workers)
  SELECT NEW.id, NEW.seq, (
      SELECT lanes.id FROM "kiln".lanes WHERE lanes.project_id = NEW.project_id AND lanes.kind = NEW.kind AND
        lanes.kind_version = NEW.kind_version AND lanes.mode = NEW.mode),
    NEW.project_id, NEW.kind, NEW.mode, NEW.priority, NEW.created_at, NEW.queue_limit_ms, NEW.run_limit_ms,
    'queued', 0, false, NEW.created_at + NEW.delay_ms, NEW.created_at + NEW.delay_ms + NEW.queue_limit_ms, NEW.created_at + NEW.delay_ms,
    0, 0, 0, 0, 0;
  RETURN NULL;
END $$;
`

/** A replaced idempotency key is not bound again by what was read before: a snapshot of a caller's, or the facts of a submission. */
export const keysInSnapshots: Migration = { name: "0018KeysInSnapshots", sql: standInQueue + returnToQueue }
