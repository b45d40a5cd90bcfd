import { deliveryMark } from "@kiln/core/rules"

/** Rules between two states of a row, and between a job and its result, which a CHECK cannot see. */
const moves = `
CREATE TRIGGER jobs_origin_is_final BEFORE UPDATE OF
  seq, id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key, fingerprint, price_id, created_at,
  queue_limit_ms, run_limit_ms, delay_ms ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('the fields a job was created with cannot be changed');

CREATE TRIGGER jobs_request_is_final BEFORE UPDATE OF request ON "kiln".jobs
FOR EACH ROW WHEN (NEW.request IS NOT NULL) EXECUTE FUNCTION "kiln".refuse('the fields a job was created with cannot be changed');

-- A result belongs to a job that has left the queue. Its place leaves in the same statement: no job is in neither, and no place
-- is left before its job ends. So unfinished_stays compares the two, and here the jobs are read in one search of the index.
CREATE FUNCTION "kiln".result_of_ended_job() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  seqs bigint[];
  all_kept boolean;
  ids text[];
  marked bigint[];
BEGIN
  SELECT array_agg(job_seq), bool_and(retained = 'kept') INTO seqs, all_kept FROM added;
  SELECT array_agg(id), array_agg(seq) FILTER (WHERE right(kept, ${deliveryMark.length}) = '${deliveryMark}') INTO ids, marked
  FROM "kiln".jobs WHERE seq = ANY (seqs);
  IF NOT all_kept OR coalesce(cardinality(ids), 0) < cardinality(seqs) OR EXISTS (SELECT FROM "kiln".queue WHERE id = ANY (ids)) THEN
    RAISE EXCEPTION 'a result needs a job that has left the queue and whose data is kept';
  END IF;
  -- Whatever ends a marked job, onFinished is to be called.
  IF marked IS NOT NULL THEN
    INSERT INTO "kiln".deliveries (job_id, kind, due_at, attempts, token)
    SELECT job_id, kind, finished_at, 0, 0 FROM added WHERE job_seq = ANY (marked);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER results_of_ended_jobs AFTER INSERT ON "kiln".results REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".result_of_ended_job();

CREATE TRIGGER results_are_final BEFORE UPDATE ON "kiln".results
FOR EACH ROW WHEN (
  ROW(NEW.job_seq, NEW.job_id, NEW.project_id, NEW.kind, NEW.mode, NEW.created_at, NEW.status, NEW.token, NEW.ran_ms,
    NEW.waited_ms, NEW.attempts, NEW.failures, NEW.lost_workers, NEW.finished_at, NEW.error_code, NEW.charge)
  IS DISTINCT FROM
  ROW(OLD.job_seq, OLD.job_id, OLD.project_id, OLD.kind, OLD.mode, OLD.created_at, OLD.status, OLD.token, OLD.ran_ms,
    OLD.waited_ms, OLD.attempts, OLD.failures, OLD.lost_workers, OLD.finished_at, OLD.error_code, OLD.charge)
  OR (NEW.retained = OLD.retained AND
    (NEW.output IS DISTINCT FROM OLD.output OR NEW.warning_code IS DISTINCT FROM OLD.warning_code)))
EXECUTE FUNCTION "kiln".refuse('a finished job cannot be changed, except to erase its data');

CREATE FUNCTION "kiln".erase_for_good() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.retained = 'kept' OR OLD.retained = 'deleted' OR
    EXISTS (SELECT FROM "kiln".jobs WHERE seq = OLD.job_seq AND request IS NOT NULL) OR
    EXISTS (SELECT FROM "kiln".attempts WHERE job_seq = OLD.job_seq) OR
    EXISTS (SELECT FROM "kiln".files WHERE job_seq = OLD.job_seq) THEN
    RAISE EXCEPTION 'an erased job cannot keep data and cannot be restored';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER results_erased_once BEFORE UPDATE OF retained ON "kiln".results
FOR EACH ROW WHEN (NEW.retained <> OLD.retained) EXECUTE FUNCTION "kiln".erase_for_good();

-- A job takes its result and its data with it when it is deleted. One without a result is unfinished.
CREATE FUNCTION "kiln".delete_finished() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  removed_seqs bigint[] := ARRAY(SELECT seq FROM removed);
  finished bigint;
BEGIN
  DELETE FROM "kiln".results WHERE job_seq = ANY (removed_seqs);
  GET DIAGNOSTICS finished = ROW_COUNT;
  IF finished < cardinality(removed_seqs) THEN RAISE EXCEPTION 'an unfinished job cannot be deleted'; END IF;
  DELETE FROM "kiln".job_labels WHERE job_seq = ANY (removed_seqs);
  DELETE FROM "kiln".job_scopes WHERE job_seq = ANY (removed_seqs);
  DELETE FROM "kiln".attempts WHERE job_seq = ANY (removed_seqs);
  DELETE FROM "kiln".deliveries WHERE job_id = ANY (ARRAY(SELECT id FROM removed));
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_deleted_when_finished AFTER DELETE ON "kiln".jobs REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".delete_finished();

CREATE FUNCTION "kiln".result_goes_with_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM removed WHERE EXISTS (SELECT FROM "kiln".jobs WHERE seq = removed.job_seq OFFSET 0)) THEN
    RAISE EXCEPTION 'the result of a job cannot be deleted without the job';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER results_go_with_jobs AFTER DELETE ON "kiln".results REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".result_goes_with_job();
`

/**
 * A retry takes over the upload of the failed job: the only exception to the rule that a job's origin never changes. This is
 * checked at the commit, because the upload leaves the failed job before the retry takes it.
 */
const uploadMoves = `
CREATE FUNCTION "kiln".upload_leaves_failed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.upload_id IS NOT NULL OR NOT EXISTS (
      SELECT FROM "kiln".results WHERE job_seq = OLD.seq AND status = 'failed' AND retained = 'kept') THEN
    RAISE EXCEPTION 'the fields a job was created with cannot be changed';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER jobs_upload_is_final BEFORE UPDATE OF upload_id ON "kiln".jobs
FOR EACH ROW WHEN (NEW.upload_id IS DISTINCT FROM OLD.upload_id) EXECUTE FUNCTION "kiln".upload_leaves_failed();

CREATE FUNCTION "kiln".upload_went_to_retry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".jobs WHERE upload_id = OLD.upload_id AND seq > OLD.seq AND
      project_id = OLD.project_id AND key_id = OLD.key_id AND mode = OLD.mode) THEN
    RAISE EXCEPTION 'a failed job can release its upload only to a retry of the job';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_upload_goes_to_retry AFTER UPDATE OF upload_id ON "kiln".jobs
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.upload_id IS DISTINCT FROM OLD.upload_id)
EXECUTE FUNCTION "kiln".upload_went_to_retry();
`

const files = `
CREATE FUNCTION "kiln".file_of_done_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM added WHERE NOT EXISTS (
      SELECT FROM "kiln".results WHERE job_seq = added.job_seq AND retained = 'kept' AND status = 'done' OFFSET 0)) THEN
    RAISE EXCEPTION 'files need a job that exists, is done and is not erased';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER files_of_done_jobs AFTER INSERT ON "kiln".files REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".file_of_done_job();
CREATE TRIGGER files_are_final BEFORE UPDATE ON "kiln".files
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('a file cannot be changed');
`

/** Parts that only some new jobs have: a price, or an upload that they take. */
const consumption = `
CREATE FUNCTION "kiln".price_and_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.price_id IS NOT NULL AND NEW.mode <> 'live' THEN
    RAISE EXCEPTION 'only a live job can have a price';
  END IF;
  IF NEW.upload_id IS NOT NULL AND NOT EXISTS (SELECT FROM "kiln".uploads WHERE id = NEW.upload_id AND blob_key IS NOT NULL AND NOT erased AND
      project_id = NEW.project_id AND key_id = NEW.key_id AND mode = NEW.mode) THEN
    RAISE EXCEPTION 'a job can consume only an upload that has arrived and belongs to its key';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER jobs_price_and_upload BEFORE INSERT ON "kiln".jobs
FOR EACH ROW WHEN (NEW.price_id IS NOT NULL OR NEW.upload_id IS NOT NULL) EXECUTE FUNCTION "kiln".price_and_upload();

CREATE FUNCTION "kiln".erase_upload_for_good() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.erased OR EXISTS (SELECT FROM "kiln".jobs WHERE upload_id = OLD.id AND NOT EXISTS (
      SELECT FROM "kiln".results WHERE job_seq = jobs.seq OFFSET 0)) THEN
    RAISE EXCEPTION 'an erased upload cannot be restored, and an upload cannot be erased while its job is unfinished';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER uploads_erased_once BEFORE UPDATE OF erased ON "kiln".uploads
FOR EACH ROW WHEN (OLD.erased <> NEW.erased) EXECUTE FUNCTION "kiln".erase_upload_for_good();
`

/**
 * The database writes the ledger itself, in the statement that makes a live job done. Together with the CHECK that ties
 * results.charge to that state, each such job has exactly one charge and no other job has one.
 *
 * A completion first announces itself with a shared lock that names the earliest second of its charge, and then reads how far
 * the ledger is closed, in a separate statement and so with a new snapshot. A reader closes the ledger first and checks the
 * locks afterwards (`listCharges`). So either the completion sees the close, or the reader sees the completion. The lock is
 * released after the commit is visible. No transaction waits for it.
 */
const ledger = `
CREATE FUNCTION "kiln".charge_of_live_done_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".jobs JOIN "kiln".results ON job_seq = seq
      WHERE id = NEW.job_id AND results.mode = 'live' AND status = 'done') THEN
    RAISE EXCEPTION 'only a live job that is done can be charged';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER charges_of_live_done_jobs BEFORE INSERT ON "kiln".charges
FOR EACH ROW EXECUTE FUNCTION "kiln".charge_of_live_done_job();

CREATE FUNCTION "kiln".write_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(
    ('"kiln".closed_ledger'::regclass::oid::bigint - 2147483648)::int, (NEW.finished_at / 1000 - 2147483648)::int);
  INSERT INTO "kiln".charges (job_id, project_id, key_id, kind, currency, amount, line_items, charged_at)
  SELECT NEW.job_id, NEW.project_id, (SELECT key_id FROM "kiln".jobs WHERE seq = NEW.job_seq), NEW.kind,
    NEW.charge::json ->> 'currency', NEW.charge::json ->> 'amount', NEW.charge::json -> 'lineItems',
    greatest(NEW.finished_at, closed_until)
  FROM "kiln".closed_ledger;
  RETURN NULL;
END $$;
CREATE TRIGGER results_charge AFTER INSERT ON "kiln".results
FOR EACH ROW WHEN (NEW.charge IS NOT NULL) EXECUTE FUNCTION "kiln".write_charge();

CREATE FUNCTION "kiln".ledger_stays_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.closed_until < OLD.closed_until OR NEW.complete_until < OLD.complete_until THEN
    RAISE EXCEPTION 'a closed part of the ledger cannot be opened again';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER closed_ledger_stays_closed BEFORE UPDATE ON "kiln".closed_ledger
FOR EACH ROW EXECUTE FUNCTION "kiln".ledger_stays_closed();

CREATE TRIGGER charges_are_final BEFORE UPDATE ON "kiln".charges
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('a charge cannot be changed');
CREATE TRIGGER charges_stay BEFORE DELETE ON "kiln".charges
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('a charge cannot be deleted');
`

export const jobTriggers = moves + uploadMoves + files + consumption + ledger
