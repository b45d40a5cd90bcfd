/** What holds between two states of an unfinished job, and between its two rows. */
export const queueTriggers = `
CREATE TRIGGER queue_begins_queued BEFORE INSERT ON "kiln".queue
FOR EACH ROW WHEN (NEW.status <> 'queued' OR NEW.token <> 0 OR NEW.held)
EXECUTE FUNCTION "kiln".refuse('a job begins queued');

CREATE FUNCTION "kiln".queued_while_unfinished() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".jobs WHERE seq = NEW.job_seq AND id = NEW.id AND status IS NULL) THEN
    RAISE EXCEPTION 'a place in the queue is an unfinished job''s';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER queue_of_unfinished_jobs BEFORE INSERT ON "kiln".queue
FOR EACH ROW EXECUTE FUNCTION "kiln".queued_while_unfinished();

CREATE TRIGGER queue_legal_moves BEFORE UPDATE OF status ON "kiln".queue
FOR EACH ROW WHEN (OLD.status = 'processing' AND NEW.status <> 'processing')
EXECUTE FUNCTION "kiln".refuse('illegal transition of a job');

CREATE TRIGGER queue_token_grows BEFORE UPDATE OF token, held, status ON "kiln".queue
FOR EACH ROW WHEN (NEW.token < OLD.token OR
  (NEW.token = OLD.token AND (NEW.held <> OLD.held OR NEW.status <> OLD.status)))
EXECUTE FUNCTION "kiln".refuse('the token grows with every claim and every end of one');

CREATE TRIGGER queue_origin_is_final BEFORE UPDATE OF
  id, job_seq, lane_id, project_id, kind, mode, priority, created_at, queue_limit_ms, run_limit_ms ON "kiln".queue
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('what a job was asked for never changes');

CREATE FUNCTION "kiln".unfinished_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Done comes from a claim's own hands; and the end of a claim raises the token like any other.
  IF NOT EXISTS (SELECT FROM "kiln".jobs WHERE seq = OLD.job_seq AND token > OLD.token AND
      (status = 'failed' OR (status = 'done' AND OLD.held))) THEN
    RAISE EXCEPTION 'a job leaves the queue when it ends';
  END IF;
  RETURN NULL;
END $$;
-- Asked at the commit, because the job's own row is written after this one is gone.
CREATE CONSTRAINT TRIGGER queue_left_when_finished AFTER DELETE ON "kiln".queue
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "kiln".unfinished_stays();

CREATE FUNCTION "kiln".unfinished_is_queued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".queue WHERE job_seq = NEW.seq) AND
    NOT EXISTS (SELECT FROM "kiln".jobs WHERE seq = NEW.seq AND status IS NOT NULL) THEN
    RAISE EXCEPTION 'an accepted job stands in the queue';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_stand_in_queue AFTER INSERT ON "kiln".jobs
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "kiln".unfinished_is_queued();

CREATE FUNCTION "kiln".checkpoint_while_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".queue WHERE id = NEW.job_id AND held) THEN
    RAISE EXCEPTION 'steps are kept while a worker holds the job';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER checkpoints_while_held BEFORE INSERT OR UPDATE ON "kiln".checkpoints
FOR EACH ROW EXECUTE FUNCTION "kiln".checkpoint_while_held();
`
