import { deliveryMark } from "@kiln/core/rules"
import type { Migration } from "@kiln/core/ports"

/**
 * The lock of a job as a parent. A transaction that ends children shares it, and one that parks the job on them takes it alone: either it
 * counts them after those have ended, or they see that it is parked.
 */
export const parentLock = (id: string): string =>
  `hashtextextended(current_database() || ' "kiln".parents ' || ${id}, 0)`

/** The channel of `workChannel`. */
export const channel = `'kiln_' || (SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid
      WHERE pg_class.oid = '"kiln".parked'::regclass)`

const tables = `
-- One that is over stays until its job is parked again, or deleted. No foreign keys, because each new job would be checked for them.
CREATE TABLE "kiln".parked (
  job_seq    bigint NOT NULL PRIMARY KEY,
  -- The job's token since then. The job is parked as long as nobody holds it and its token is this one.
  token      bigint NOT NULL,
  reason     text   NOT NULL,
  subject    text   NOT NULL,
  -- Children of the step that have not finished; 0 for other reasons.
  unfinished bigint NOT NULL,
  parked_at  bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- The first value of each name.
CREATE TABLE "kiln".signals (
  job_seq bigint NOT NULL,
  name    text COLLATE "C" NOT NULL,
  value   text   NOT NULL,
  at      bigint NOT NULL,
  PRIMARY KEY (job_seq, name)
);

-- Signals of callers' transactions, which do not lock the job. Whichever process finds one after the commit wakes the job.
CREATE TABLE "kiln".due_signals (job_seq bigint NOT NULL);
CREATE INDEX due_signals_by_job ON "kiln".due_signals (job_seq);

CREATE FUNCTION "kiln".signals_go_with_jobs() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".signals WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  DELETE FROM "kiln".parked WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_take_signals_along AFTER DELETE ON "kiln".jobs REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".signals_go_with_jobs();

CREATE FUNCTION "kiln".erase_signals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM "kiln".signals WHERE job_seq = NEW.job_seq;
  RETURN NULL;
END $$;
CREATE TRIGGER results_erase_signals AFTER UPDATE OF retained ON "kiln".results
FOR EACH ROW WHEN (OLD.retained = 'kept' AND NEW.retained <> 'kept') EXECUTE FUNCTION "kiln".erase_signals();
`

/** Like `applyEvent` for `woken`; stores are compared with that function. */
const wakeJobs = `
-- Makes those of these jobs claimable that are parked on an event which has come.
CREATE FUNCTION "kiln".wake_jobs(seqs bigint[]) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  woken_at bigint := "kiln".store_time();
  parked_ids text[];
  their_lanes bigint[];
BEGIN
  SELECT array_agg(queue.id ORDER BY queue.id), array_agg(queue.lane_id) INTO parked_ids, their_lanes
  FROM unnest(seqs) AS item(seq) JOIN "kiln".parked ON parked.job_seq = item.seq JOIN "kiln".jobs ON jobs.seq = item.seq
    JOIN "kiln".queue ON queue.id = jobs.id AND queue.token = parked.token
  WHERE NOT queue.held AND queue.claimable_at > woken_at AND (
    (parked.reason = 'children' AND parked.unfinished <= 0) OR
    (parked.reason = 'signal' AND EXISTS (SELECT FROM "kiln".signals WHERE signals.job_seq = item.seq AND name = parked.subject)));
  IF parked_ids IS NULL THEN
    RETURN;
  END IF;
  -- Keeps settle_lanes away from the lanes until the commit.
  PERFORM FROM "kiln".lanes WHERE id = ANY (their_lanes) ORDER BY id FOR KEY SHARE;
  UPDATE "kiln".queue SET claimable_at = woken_at, phase_started_at = woken_at, claim_id = NULL,
    deadline_at = woken_at + greatest(0, queue_limit_ms - waited_ms)
  FROM "kiln".parked
  WHERE queue.id = ANY (parked_ids) AND parked.job_seq = queue.job_seq AND parked.token = queue.token AND NOT queue.held AND
    queue.claimable_at > woken_at;
  PERFORM FROM "kiln".lanes WHERE id = ANY (their_lanes) AND (next_at IS NULL OR next_at > woken_at) ORDER BY id FOR NO KEY UPDATE;
  UPDATE "kiln".lanes SET next_at = woken_at WHERE id = ANY (their_lanes) AND (next_at IS NULL OR next_at > woken_at);
  PERFORM pg_notify(${channel}, 'woken');
END $$;

-- Counts the children that end in this transaction, and wakes the parents that are parked on them.
CREATE FUNCTION "kiln".children_ended(seqs bigint[]) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  parents text[];
  steps text[];
  counts bigint[];
  complete bigint[];
BEGIN
  SELECT array_agg(parent ORDER BY parent, step), array_agg(step ORDER BY parent, step), array_agg(ended ORDER BY parent, step)
  INTO parents, steps, counts FROM (
    SELECT kept::json #>> '{kiln:submitted,parent,jobId}' AS parent, kept::json #>> '{kiln:submitted,parent,step}' AS step, count(*) AS ended
    FROM "kiln".jobs WHERE seq = ANY (seqs) AND strpos(kept, '"parent":{') > 0 GROUP BY 1, 2) AS steps_ended
  WHERE parent IS NOT NULL;
  IF parents IS NULL THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock_shared(${parentLock("parent")})
  FROM (SELECT DISTINCT parent FROM unnest(parents) AS item(parent) ORDER BY parent OFFSET 0) AS each_parent;
  -- In the order of their numbers, so that two transactions that end children of the same parents cannot deadlock.
  PERFORM FROM "kiln".parked WHERE job_seq = ANY (ARRAY(SELECT jobs.seq FROM "kiln".jobs WHERE jobs.id = ANY (parents)))
  ORDER BY job_seq FOR NO KEY UPDATE;
  WITH counted AS (
    UPDATE "kiln".parked SET unfinished = parked.unfinished - item.ended
    FROM unnest(parents, steps, counts) AS item(parent, step, ended) JOIN "kiln".jobs ON jobs.id = item.parent
    WHERE parked.job_seq = jobs.seq AND parked.reason = 'children' AND parked.subject = item.step
    RETURNING parked.job_seq, parked.unfinished)
  SELECT array_agg(job_seq) FILTER (WHERE unfinished <= 0) INTO complete FROM counted;
  IF complete IS NOT NULL THEN
    PERFORM "kiln".wake_jobs(complete);
  END IF;
END $$;
`

/** The same function, which tells parents besides. */
const resultTrigger = `
CREATE OR REPLACE FUNCTION "kiln".result_of_ended_job() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  seqs bigint[];
  all_kept boolean;
  ids text[];
  marked bigint[];
  has_children boolean;
BEGIN
  SELECT array_agg(job_seq), bool_and(retained = 'kept') INTO seqs, all_kept FROM added;
  SELECT array_agg(id), array_agg(seq) FILTER (WHERE right(kept, ${deliveryMark.length}) = '${deliveryMark}'),
    bool_or(strpos(kept, '"parent":{') > 0)
  INTO ids, marked, has_children FROM "kiln".jobs WHERE seq = ANY (seqs);
  IF NOT all_kept OR coalesce(cardinality(ids), 0) < cardinality(seqs) OR EXISTS (SELECT FROM "kiln".queue WHERE id = ANY (ids)) THEN
    RAISE EXCEPTION 'a result needs a job that has left the queue and whose data is kept';
  END IF;
  -- Whatever ends a marked job, onFinished is to be called.
  IF marked IS NOT NULL THEN
    INSERT INTO "kiln".deliveries (job_id, kind, due_at, attempts, token)
    SELECT job_id, kind, finished_at, 0, 0 FROM added WHERE job_seq = ANY (marked);
  END IF;
  -- Whatever ends a child, its parent goes on.
  IF has_children THEN
    PERFORM "kiln".children_ended(seqs);
  END IF;
  RETURN NULL;
END $$;
`

const signalJobs = `
-- items: objects with jobId, name, value, and projectId, keyId and mode of the owner where the job must have it
-- own:   false in a transaction of a caller's, which locks no job and wakes none
-- payload: a notification that is sent in a caller's transaction if a signal is kept, or NULL
-- Returns an outcome for each, in their order.
CREATE FUNCTION "kiln".signal_jobs(items json, own boolean, payload text) RETURNS json LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
  item record;
  job record;
  first_value text;
  outcome text;
  outcomes text[] := array_fill(''::text, ARRAY[json_array_length(items)]);
  accepted bigint[] := '{}';
  stored_at bigint := "kiln".store_time();
BEGIN
  IF own THEN
    PERFORM FROM "kiln".queue WHERE queue.id = ANY (ARRAY(SELECT asked."jobId" FROM json_to_recordset(items) AS asked("jobId" text)))
    ORDER BY queue.id FOR UPDATE;
  END IF;
  FOR item IN
    SELECT asked.* FROM ROWS FROM (json_to_recordset(items) AS (
      "jobId" text, name text, value text, "projectId" text, "keyId" text, mode text)
    ) WITH ORDINALITY AS asked("jobId", name, value, "projectId", "keyId", mode, place)
    ORDER BY asked."jobId" COLLATE "C", asked.name COLLATE "C", asked.place
  LOOP
    SELECT jobs.seq, jobs.project_id, jobs.key_id, jobs.mode INTO job FROM "kiln".jobs WHERE jobs.id = item."jobId";
    IF NOT FOUND OR coalesce(item."projectId", job.project_id) <> job.project_id OR coalesce(item."keyId", job.key_id) <> job.key_id OR
        coalesce(item.mode, job.mode) <> job.mode THEN
      outcome := 'NotFound';
    ELSE
      SELECT signals.value INTO first_value FROM "kiln".signals WHERE signals.job_seq = job.seq AND signals.name = item.name;
      IF FOUND THEN
        outcome := CASE WHEN first_value = item.value THEN 'Repeated' ELSE 'Superseded' END;
      ELSIF NOT EXISTS (SELECT FROM "kiln".queue WHERE queue.id = item."jobId") THEN
        outcome := 'Finished';
      ELSIF (SELECT count(*) FROM "kiln".signals WHERE signals.job_seq = job.seq) >= 100 THEN
        outcome := 'Full';
      ELSE
        INSERT INTO "kiln".signals (job_seq, name, value, at) VALUES (job.seq, item.name, item.value, stored_at)
        ON CONFLICT ON CONSTRAINT signals_pkey DO NOTHING;
        IF FOUND THEN
          outcome := 'Accepted';
          accepted := accepted || job.seq;
        ELSE
          SELECT signals.value INTO first_value FROM "kiln".signals WHERE signals.job_seq = job.seq AND signals.name = item.name;
          outcome := CASE WHEN first_value = item.value THEN 'Repeated' ELSE 'Superseded' END;
        END IF;
      END IF;
    END IF;
    outcomes[item.place] := outcome;
  END LOOP;
  IF accepted <> '{}' THEN
    IF own THEN
      PERFORM "kiln".wake_jobs(accepted);
    ELSE
      INSERT INTO "kiln".due_signals (job_seq) SELECT DISTINCT unnest(accepted);
      IF payload IS NOT NULL THEN
        PERFORM pg_notify(${channel}, payload);
      END IF;
    END IF;
  END IF;
  RETURN to_json(outcomes);
END $$;

-- Wakes the jobs of signals that callers have committed. A signal of a job whose data was erased before that goes with it.
CREATE FUNCTION "kiln".wake_signaled() RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  seqs bigint[];
BEGIN
  IF NOT EXISTS (SELECT FROM "kiln".due_signals WHERE job_seq >= 0) THEN
    RETURN 0;
  END IF;
  WITH due AS (
    DELETE FROM "kiln".due_signals WHERE ctid = ANY (ARRAY(SELECT ctid FROM "kiln".due_signals WHERE job_seq >= 0 LIMIT 500 FOR UPDATE SKIP LOCKED))
    RETURNING job_seq)
  SELECT array_agg(DISTINCT job_seq) INTO seqs FROM due;
  IF seqs IS NULL THEN
    RETURN 0;
  END IF;
  DELETE FROM "kiln".signals WHERE job_seq = ANY (seqs) AND NOT EXISTS (
    SELECT FROM "kiln".jobs WHERE seq = signals.job_seq AND request IS NOT NULL);
  -- A job that is being parked may not have seen the signal: once it is, the next statement sees that.
  PERFORM FROM "kiln".queue WHERE id = ANY (ARRAY(SELECT id FROM "kiln".jobs WHERE seq = ANY (seqs))) ORDER BY id FOR UPDATE;
  PERFORM "kiln".wake_jobs(seqs);
  RETURN cardinality(seqs);
END $$;
`

/** Jobs that are parked, and the signals of jobs. */
export const signals: Migration = {
  name: "0012Signals",
  sql: tables + wakeJobs + resultTrigger + signalJobs,
}
