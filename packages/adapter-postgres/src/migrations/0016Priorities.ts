import type { Migration } from "@kiln/core/ports"

/**
 * An operator may change the priority of a job that waits: in the queue first, and then in the job. The rest of what a job was created
 * with stays final. Replacing a trigger keeps no reader waiting.
 */
export const priorities: Migration = {
  name: "0016Priorities",
  sql: `
CREATE OR REPLACE TRIGGER jobs_origin_is_final BEFORE UPDATE OF
  seq, id, project_id, key_id, mode, kind, kind_version, kept, idempotency_key, fingerprint, price_id, created_at,
  queue_limit_ms, run_limit_ms, delay_ms ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('the fields a job was created with cannot be changed');

CREATE OR REPLACE TRIGGER queue_origin_is_final BEFORE UPDATE OF
  id, job_seq, lane_id, project_id, kind, mode, created_at, queue_limit_ms, run_limit_ms ON "kiln".queue
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('the fields a job was created with cannot be changed');

CREATE TRIGGER queue_priority_while_waiting BEFORE UPDATE OF priority ON "kiln".queue
FOR EACH ROW WHEN (OLD.held) EXECUTE FUNCTION "kiln".refuse('only a job that waits can change its priority');

CREATE FUNCTION "kiln".priority_of_queue() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".queue WHERE queue.id = NEW.id AND queue.priority = NEW.priority AND NOT queue.held) THEN
    RAISE EXCEPTION 'only a job that waits can change its priority';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER jobs_priority_as_in_queue BEFORE UPDATE OF priority ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".priority_of_queue();

-- At the commit, because the queue is changed before the job.
CREATE FUNCTION "kiln".priority_of_job() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM "kiln".queue JOIN "kiln".jobs ON jobs.seq = queue.job_seq WHERE queue.id = NEW.id AND jobs.priority <> queue.priority) THEN
    RAISE EXCEPTION 'the queue has another priority than the job';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER queue_priority_as_in_jobs AFTER UPDATE OF priority ON "kiln".queue
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "kiln".priority_of_job();
`,
}
