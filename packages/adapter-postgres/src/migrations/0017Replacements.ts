import type { Migration } from "@kiln/core/ports"
import { laneLock } from "./acceptJobs/facts.ts"

/**
 * The keys that a job had before. Its own key is in its row, where the unique index finds it: of two transactions that bind one key, one waits for
 * the other. A key leaves the index when its request is replaced, so a new job is compared with this table afterwards, in a statement that
 * sees what a transaction has committed for which the insertion has waited. A process of the previous version does not look here: it gets the error.
 */
const replacedKeys = `
CREATE TABLE "kiln".replaced_keys (
  key_id          text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  fingerprint     text   NOT NULL,
  job_seq         bigint NOT NULL,
  PRIMARY KEY (key_id, idempotency_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX replaced_keys_job ON "kiln".replaced_keys (job_seq);

CREATE FUNCTION "kiln".replaced_keys_go_with_jobs() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".replaced_keys WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_take_keys_along AFTER DELETE ON "kiln".jobs REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".replaced_keys_go_with_jobs();

CREATE OR REPLACE FUNCTION "kiln".stand_in_queue() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM added WHERE EXISTS (
      SELECT FROM "kiln".replaced_keys
      WHERE replaced_keys.key_id = added.key_id AND replaced_keys.idempotency_key = added.idempotency_key OFFSET 0)) THEN
    RAISE EXCEPTION 'an idempotency key is bound to a job whose request was replaced' USING ERRCODE = 'KILN2';
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
 * A job gets another request between two places in the queue: its row there is deleted, the job changes, and a trigger inserts a new one. The
 * row is never updated for it, so a claim cannot mix two requests: one that began before sees the old place, which it cannot lock any more, and
 * one that sees the new place sees the new request.
 */
const places = `
CREATE FUNCTION "kiln".is_between_places(job_id text, seq bigint) RETURNS boolean LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN NOT EXISTS (SELECT FROM "kiln".queue WHERE queue.id = job_id) AND NOT EXISTS (SELECT FROM "kiln".results WHERE results.job_seq = seq);
END $$;

CREATE FUNCTION "kiln".only_between_places() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT "kiln".is_between_places(NEW.id, NEW.seq) THEN
    RAISE EXCEPTION 'the fields a job was created with cannot be changed, except before its first attempt, by another request';
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER jobs_origin_is_final BEFORE UPDATE OF seq, id, project_id, key_id, mode, kind, created_at ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('the fields a job was created with cannot be changed');

CREATE TRIGGER jobs_replaced_between_places BEFORE UPDATE OF
  kind_version, kept, idempotency_key, fingerprint, price_id, queue_limit_ms, run_limit_ms, delay_ms ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".only_between_places();

CREATE OR REPLACE TRIGGER jobs_request_is_final BEFORE UPDATE OF request ON "kiln".jobs
FOR EACH ROW WHEN (NEW.request IS NOT NULL) EXECUTE FUNCTION "kiln".only_between_places();

CREATE TRIGGER jobs_take_price_and_upload BEFORE UPDATE OF price_id, upload_id ON "kiln".jobs
FOR EACH ROW WHEN ((NEW.price_id IS NOT NULL AND NEW.price_id IS DISTINCT FROM OLD.price_id) OR
  (NEW.upload_id IS NOT NULL AND NEW.upload_id IS DISTINCT FROM OLD.upload_id))
EXECUTE FUNCTION "kiln".price_and_upload();

CREATE OR REPLACE FUNCTION "kiln".upload_leaves_failed() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF (NEW.upload_id IS NOT NULL OR NOT EXISTS (
      SELECT FROM "kiln".results WHERE job_seq = OLD.seq AND status = 'failed' AND retained = 'kept')) AND
      NOT "kiln".is_between_places(OLD.id, OLD.seq) THEN
    RAISE EXCEPTION 'the fields a job was created with cannot be changed';
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION "kiln".upload_went_to_retry() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM "kiln".results WHERE job_seq = OLD.seq) AND NOT EXISTS (
      SELECT FROM "kiln".jobs WHERE upload_id = OLD.upload_id AND seq > OLD.seq AND
        project_id = OLD.project_id AND key_id = OLD.key_id AND mode = OLD.mode) THEN
    RAISE EXCEPTION 'a failed job can release its upload only to a retry of the job';
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "kiln".priority_of_queue() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".queue WHERE queue.id = NEW.id AND queue.priority = NEW.priority AND NOT queue.held) AND
      NOT "kiln".is_between_places(NEW.id, NEW.seq) THEN
    RAISE EXCEPTION 'only a job that waits can change its priority';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION "kiln".return_to_queue() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
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
-- A replaced request always has another key.
CREATE TRIGGER jobs_return_to_queue AFTER UPDATE OF idempotency_key ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".return_to_queue();

-- As before, and the place of a job without an attempt may leave without an end: it must be back by the commit.
CREATE OR REPLACE FUNCTION "kiln".unfinished_stays() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM removed WHERE removed.status <> 'queued' AND NOT EXISTS (
      SELECT FROM "kiln".results WHERE job_seq = removed.job_seq AND job_id = removed.id AND
        project_id = removed.project_id AND kind = removed.kind AND mode = removed.mode AND
        created_at = removed.created_at AND token > removed.token AND
        (status = 'failed' OR (status = 'done' AND removed.held)) OFFSET 0)) THEN
    RAISE EXCEPTION 'a job leaves the queue exactly when it ends';
  END IF;
  -- The result is read only of jobs that have checkpoints.
  DELETE FROM "kiln".checkpoints WHERE job_id = ANY (ARRAY(SELECT id FROM removed)) AND 'done' = (
    SELECT results.status FROM "kiln".jobs JOIN "kiln".results ON results.job_seq = jobs.seq
    WHERE jobs.id = checkpoints.job_id OFFSET 0);
  RETURN NULL;
END $$;

CREATE FUNCTION "kiln".queued_stays() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF NOT EXISTS (
      SELECT FROM "kiln".results WHERE job_seq = OLD.job_seq AND job_id = OLD.id AND project_id = OLD.project_id AND
        kind = OLD.kind AND mode = OLD.mode AND created_at = OLD.created_at AND token > OLD.token AND status = 'failed') AND
      NOT EXISTS (
      SELECT FROM "kiln".queue WHERE id = OLD.id AND job_seq = OLD.job_seq AND project_id = OLD.project_id AND
        kind = OLD.kind AND mode = OLD.mode AND created_at = OLD.created_at AND token = OLD.token AND status = 'queued') THEN
    RAISE EXCEPTION 'a job leaves the queue exactly when it ends';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER queue_queued_stays AFTER DELETE ON "kiln".queue
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status = 'queued') EXECUTE FUNCTION "kiln".queued_stays();
`

const replaceJob = `
-- remembers: whether the key that the job had was a caller's, and so stays bound to it
-- labels:    an array of texts, or NULL
-- all else:  as for accept_job. delay_ms counts from the creation
-- Returns false, and writes nothing, unless the job waits for its first attempt.
CREATE FUNCTION "kiln".replace_job(id text, kind_version bigint, upload_id text, priority smallint, kept text, idempotency_key text,
  fingerprint text, price_id bigint, queue_limit_ms bigint, run_limit_ms bigint, delay_ms bigint, request text, labels json,
  remembers boolean) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
  before record;
  lane bigint;
  starts_at bigint;
BEGIN
  DELETE FROM "kiln".queue WHERE queue.id = replace_job.id AND queue.status = 'queued' AND NOT queue.held;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  SELECT jobs.* INTO before FROM "kiln".jobs WHERE jobs.id = replace_job.id;
  IF remembers THEN
    INSERT INTO "kiln".replaced_keys (key_id, idempotency_key, fingerprint, job_seq)
    VALUES (before.key_id, before.idempotency_key, before.fingerprint, before.seq);
  END IF;
  SELECT lanes.id INTO lane FROM "kiln".lanes WHERE lanes.project_id = before.project_id AND lanes.kind = before.kind AND
    lanes.kind_version = replace_job.kind_version AND lanes.mode = before.mode;
  PERFORM pg_advisory_xact_lock_shared(${laneLock("lane")});
  UPDATE "kiln".jobs SET kind_version = replace_job.kind_version, upload_id = replace_job.upload_id, priority = replace_job.priority,
    kept = replace_job.kept, idempotency_key = replace_job.idempotency_key, fingerprint = replace_job.fingerprint,
    price_id = replace_job.price_id, queue_limit_ms = replace_job.queue_limit_ms, run_limit_ms = replace_job.run_limit_ms,
    delay_ms = replace_job.delay_ms, request = replace_job.request
  WHERE jobs.seq = before.seq;
  -- The upload before waits for a job again, and for the sweep.
  UPDATE "kiln".uploads SET sweep_at = usable_until WHERE uploads.id = before.upload_id AND before.upload_id IS DISTINCT FROM replace_job.upload_id;
  UPDATE "kiln".uploads SET sweep_at = NULL WHERE uploads.id = replace_job.upload_id;
  DELETE FROM "kiln".job_labels WHERE job_labels.job_seq = before.seq;
  IF labels IS NOT NULL THEN
    INSERT INTO "kiln".job_labels (label, created_at, job_id, job_seq)
    SELECT given.label, before.created_at, before.id, before.seq FROM json_array_elements_text(labels) AS given(label);
  END IF;
  -- The lock was granted before this statement began.
  starts_at := before.created_at + delay_ms;
  UPDATE "kiln".lanes SET next_at = starts_at WHERE lanes.id = lane AND (next_at IS NULL OR next_at > starts_at);
  RETURN true;
END $$;
`

/** A job that waits for its first attempt may get another request. */
export const replacements: Migration = { name: "0017Replacements", sql: replacedKeys + places + replaceJob }
