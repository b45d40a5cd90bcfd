/**
 * What a job was asked for never changes, with one exception: a retry takes over what the failed job had consumed. Whether
 * one did is asked at the commit, because the upload has to leave the one before it comes to the other.
 */
export const originTriggers = `
DROP TRIGGER jobs_origin_is_final ON "kiln".jobs;
CREATE TRIGGER jobs_origin_is_final BEFORE UPDATE OF
  id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key, fingerprint, price_id, created_at,
  queue_limit_ms, run_limit_ms ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('what a job was asked for never changes');

CREATE TRIGGER jobs_upload_is_final BEFORE UPDATE OF upload_id ON "kiln".jobs
FOR EACH ROW WHEN (NEW.upload_id IS DISTINCT FROM OLD.upload_id AND
  (NEW.upload_id IS NOT NULL OR OLD.status IS DISTINCT FROM 'failed' OR OLD.retained <> 'kept'))
EXECUTE FUNCTION "kiln".refuse('what a job was asked for never changes');

CREATE FUNCTION "kiln".upload_went_to_retry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".jobs WHERE upload_id = OLD.upload_id AND seq > OLD.seq AND
      project_id = OLD.project_id AND key_id = OLD.key_id AND mode = OLD.mode) THEN
    RAISE EXCEPTION 'the upload of a failed job goes to a retry of it';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_upload_goes_to_retry AFTER UPDATE OF upload_id ON "kiln".jobs
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.upload_id IS DISTINCT FROM OLD.upload_id)
EXECUTE FUNCTION "kiln".upload_went_to_retry();

DROP TRIGGER queue_origin_is_final ON "kiln".queue;
CREATE TRIGGER queue_origin_is_final BEFORE UPDATE OF
  id, job_seq, lane_id, project_id, kind, mode, priority, created_at, queue_limit_ms, run_limit_ms ON "kiln".queue
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('what a job was asked for never changes');
`
