import type { Migration } from "@kiln/core/ports"
import { acceptJobs } from "./acceptJobs/acceptJobs.ts"
import {
  boardDiffers,
  capLock,
  lastNumber,
  laneLock,
  nextNumber,
  uncountedLock,
  unfinishedOf,
} from "./acceptJobs/facts.ts"

/**
 * Upper bounds of what counts against a cap: the sums when entries were last added up, and all reservations since. Ends of jobs only lower
 * what counts, because a charge is not above its reservation. A charge that is, or had none, is marked: then entries are added up again.
 * Triggers keep all of this, so reservations by processes of the previous version count too. Whoever reserves holds the lock of the cap; ends of
 * jobs lock nothing.
 */
const spendBounds = `
-- NULL where they are not known.
ALTER TABLE "kiln".spend_caps ADD COLUMN day_bound text, ADD COLUMN month_bound text;
-- Whether the amount is in the bounds, or was when it was reserved.
ALTER TABLE "kiln".spending ADD COLUMN in_bound boolean NOT NULL DEFAULT false;

CREATE INDEX spending_out_of_bounds ON "kiln".spending (owner) WHERE NOT in_bound AND charged_at IS NOT NULL;

CREATE FUNCTION "kiln".raise_spend_bound() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  UPDATE "kiln".spend_caps SET day_bound = (day_bound::numeric + NEW.amount::numeric)::text,
    month_bound = (month_bound::numeric + NEW.amount::numeric)::text
  WHERE owner = NEW.owner;
  RETURN NULL;
END $$;
CREATE TRIGGER spending_raises_bound AFTER INSERT ON "kiln".spending
FOR EACH ROW WHEN (NEW.charged_at IS NULL AND NOT NEW.in_bound) EXECUTE FUNCTION "kiln".raise_spend_bound();

CREATE FUNCTION "kiln".forget_spend_bounds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.day_bound := NULL;
  NEW.month_bound := NULL;
  RETURN NEW;
END $$;
CREATE TRIGGER spend_caps_forget_bounds BEFORE UPDATE OF currency, day, month ON "kiln".spend_caps
FOR EACH ROW EXECUTE FUNCTION "kiln".forget_spend_bounds();

-- As before, and a charge that was reserved for is in the bounds. One of a job that was accepted before there was a cap is not.
CREATE OR REPLACE FUNCTION "kiln".count_against_caps() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  covered text[];
BEGIN
  WITH freed AS (DELETE FROM "kiln".spending WHERE entry = NEW.job_id RETURNING owner, currency, amount)
  SELECT array_agg(owner) FILTER (WHERE currency = NEW.currency AND amount::numeric >= NEW.amount::numeric) INTO covered FROM freed;
  INSERT INTO "kiln".spending (owner, entry, currency, amount, charged_at, in_bound)
  SELECT owner, NEW.job_id, NEW.currency, NEW.amount, NEW.charged_at, owner = ANY (coalesce(covered, '{}'))
  FROM "kiln".spend_caps WHERE owner IN (NEW.project_id, NEW.key_id);
  RETURN NULL;
END $$;
`

/** Creates one job without a scope and an upload: `accept_jobs` for the usual submission. Statements over lists cost the server more than the row does. */
const acceptJob = `
-- lane:   the job's lane; the fields of the job must be those of the lane
-- cap:    how many unfinished jobs its project may have; NULL where that was checked before
-- counted, counted_to: at most that many of its jobs up to this number are unfinished; NULL where that is not known
-- labels: an array of texts, or NULL
-- all else: as for accept_jobs
-- Returns the time, or the reason why nothing was written: -1 the key is bound, -2 board, -3 capped, -4 full, NULL lanes.
-- unfinished, unfinished_to: what was counted, as counted and counted_to; NULL where nothing was
CREATE FUNCTION "kiln".accept_job(id text, project_id text, key_id text, mode text, kind text, kind_version bigint,
  priority smallint, kept text, idempotency_key text, fingerprint text, price_id bigint, queue_limit_ms bigint, run_limit_ms bigint,
  delay_ms bigint, request text, labels json, lane bigint, cap bigint,
  counted bigint, counted_to bigint, board text, served_until bigint, accepted_at bigint,
  brief text, channel text, payload text, OUT accepted bigint, OUT unfinished bigint,
  OUT unfinished_to bigint) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
  -- Assigning the value of a function is cheaper than PERFORM.
  ignored text := set_config('lock_timeout', brief, true);
  lane_next_at bigint;
  number bigint;
  last_number bigint;
  is_alone boolean;
BEGIN
  IF cap IS NULL THEN
    ignored := pg_advisory_xact_lock_shared(${uncountedLock});
  ELSE
    last_number := ${lastNumber};
    IF last_number >= counted_to AND counted + last_number - counted_to < cap THEN
      ignored := pg_advisory_xact_lock_shared(${capLock});
    ELSE
      ignored := pg_advisory_xact_lock(${capLock});
      is_alone := pg_try_advisory_xact_lock(${uncountedLock});
      unfinished := ${unfinishedOf("accept_job")};
      IF unfinished >= cap THEN
        accepted := -4;
        RETURN;
      END IF;
    END IF;
    -- After the lock was granted: whoever counts holds it alone, and counts every job with a lower number.
    number := ${nextNumber};
    IF is_alone THEN
      unfinished := unfinished + 1;
      unfinished_to := number;
    ELSIF unfinished IS NOT NULL THEN
      unfinished := NULL;
    ELSIF counted + number - counted_to > cap THEN
      accepted := -4;
      RETURN;
    END IF;
  END IF;

  ignored := pg_advisory_xact_lock_shared(${laneLock("lane")});
  -- The lock was granted before this statement began.
  SELECT next_at INTO lane_next_at FROM "kiln".lanes WHERE lanes.id = lane AND lanes.project_id = accept_job.project_id
    AND lanes.kind = accept_job.kind AND lanes.kind_version = accept_job.kind_version AND lanes.mode = accept_job.mode;
  IF NOT FOUND THEN
    RETURN;
  END IF;

  accepted := coalesce(accepted_at, "kiln".store_time());
  IF board IS NOT NULL THEN
    IF accepted > served_until OR ${boardDiffers} THEN
      accepted := -2;
      RETURN;
    END IF;
    IF price_id IS NOT NULL AND EXISTS (SELECT FROM "kiln".spend_caps WHERE owner IN (project_id, key_id)) THEN
      accepted := -3;
      RETURN;
    END IF;
  END IF;

  INSERT INTO "kiln".jobs (seq, id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key,
    fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms, delay_ms, request)
  VALUES (coalesce(number, ${nextNumber}), id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key,
    fingerprint, price_id, accepted, queue_limit_ms, run_limit_ms, delay_ms, request)
  ON CONFLICT ON CONSTRAINT jobs_key_id_idempotency_key_key DO NOTHING RETURNING seq INTO number;
  IF number IS NULL THEN
    accepted := -1;
    RETURN;
  END IF;

  IF labels IS NOT NULL THEN
    INSERT INTO "kiln".job_labels (label, created_at, job_id, job_seq)
    SELECT given.label, accepted, id, number FROM json_array_elements_text(labels) AS given(label);
  END IF;
  IF lane_next_at IS NULL OR lane_next_at > accepted + delay_ms THEN
    UPDATE "kiln".lanes SET next_at = accepted + delay_ms
    WHERE lanes.id = lane AND (next_at IS NULL OR next_at > accepted + delay_ms);
  END IF;
  IF channel IS NOT NULL THEN
    ignored := pg_notify(channel, payload);
  END IF;
END $$;
`

/** Creates jobs in a transaction of a caller's with one statement. Its parameters are those of `0007CreateJobs`. */
const callersJobs = `
-- place: where the caller takes the tables to be: the server's start, the database, the table
-- all else: as for accept_jobs; without a lock, caps are compared with what is known, or counted
-- Returns JSON. Adds either all jobs or none; an error of the server is undone and returned, so that the transaction stays usable.
-- answer: added, with the time and whether next_at of a lane may be too late
--         failed, with the error
--         or why this has to be decided by several statements: busy, elsewhere, lanes, board, full, capped, refused, snapshot
CREATE OR REPLACE FUNCTION "kiln".create_callers_jobs(place text, items text, shared text, wanted text, caps text, labels text, scopes text,
  consumed text, board text, served_until text, channel text, payload text) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_material = off SET array_nulls = on SET bytea_output = hex SET extra_float_digits = 1 AS $$
DECLARE
  mark tid;
  last_number bigint := ${lastNumber};
  added record;
  sees_all boolean := current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
  is_later boolean := true;
  undecided text;
  detail text;
  context text;
BEGIN
  -- Another call is between its savepoint and its end, and may roll back to it.
  IF current_setting('kiln.creating', true) = 'on' THEN
    RETURN '{"answer":"busy"}';
  END IF;
  IF place IS DISTINCT FROM concat_ws(' ', extract(epoch from pg_catalog.pg_postmaster_start_time()),
    (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()), '"kiln".jobs'::regclass::oid) THEN
    RETURN '{"answer":"elsewhere"}';
  END IF;
  -- An older snapshot does not show spend caps that were set since.
  IF board IS NOT NULL AND NOT sees_all THEN
    RETURN '{"answer":"snapshot"}';
  END IF;
  IF EXISTS (
    SELECT FROM json_to_recordset(wanted::json) AS lane(id bigint, project_id text, kind text, kind_version bigint, mode text)
    WHERE NOT EXISTS (
      SELECT FROM "kiln".lanes WHERE lanes.id = lane.id AND lanes.project_id = lane.project_id AND lanes.kind = lane.kind
        AND lanes.kind_version = lane.kind_version AND lanes.mode = lane.mode)) THEN
    RETURN '{"answer":"lanes"}';
  END IF;
  IF caps IS NOT NULL AND EXISTS (
    SELECT FROM json_to_recordset(caps::json) AS cap(project_id text, cap bigint, adding bigint, counted bigint, counted_to bigint)
    WHERE coalesce(last_number < counted_to OR counted + last_number - counted_to + adding > cap.cap, true) AND cap.adding + ${unfinishedOf("cap")} > cap.cap) THEN
    RETURN '{"answer":"full"}';
  END IF;

  BEGIN
    INSERT INTO "kiln".caller_marks VALUES (statement_timestamp()) RETURNING ctid INTO mark;
    -- By its place, because the table has the remains of earlier calls.
    DELETE FROM "kiln".caller_marks WHERE ctid = mark;
    SELECT * INTO added FROM "kiln".accept_jobs(items::json, shared::json, wanted::json, NULL, NULL, labels::json, scopes::json,
      consumed::json, board, served_until::bigint, NULL, false, NULL, NULL, channel, payload);
    undecided := coalesce(added.reason, CASE WHEN added.refused IS NOT NULL THEN 'refused' END);
    IF undecided IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'KILN1';
    END IF;
  EXCEPTION WHEN query_canceled OR OTHERS THEN
    IF SQLSTATE = 'KILN1' THEN
      RETURN json_build_object('answer', undecided);
    END IF;
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
    RETURN json_build_object('answer', 'failed', 'code', SQLSTATE, 'message', SQLERRM, 'detail', detail, 'where', context);
  END;

  -- The lanes are locked by now. An older snapshot cannot tell.
  IF sees_all THEN
    is_later := EXISTS (
      SELECT FROM json_to_recordset(wanted::json) AS lane(id bigint, delay_ms bigint) JOIN "kiln".lanes USING (id)
      WHERE lanes.next_at IS NULL OR lanes.next_at > added.accepted + lane.delay_ms);
  END IF;
  RETURN json_build_object('answer', 'added', 'accepted', added.accepted, 'isLater', is_later);
END $$;
`

/**
 * Caps in the statement that creates. Jobs are numbered by one sequence, which also shows numbers that are not committed. So a process that
 * has counted a project's unfinished jobs once knows an upper bound later: as many more as numbers were given since, whoever took them. While
 * that is within the cap, creators share a lock and count nothing. Otherwise one of them holds the lock alone and counts.
 *
 * `create_job` and `create_jobs` stay for processes of the previous version: they count under the same lock, alone, and their jobs have
 * numbers too.
 */
export const acceptingJobs: Migration = {
  name: "0010AcceptJobs",
  sql: spendBounds + acceptJob + acceptJobs + callersJobs,
}
