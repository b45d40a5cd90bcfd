import { ranksOf } from "./ranks.ts"

/**
 * The advisory lock of a lane. Transactions that add jobs share it until they end, which keeps `settle_lanes` away until the
 * jobs are committed, so `next_at` stays a lower bound. It is not a lock on the row, which would be written for it, and which a
 * caller's transaction at REPEATABLE READ could not lock once it changed.
 */
const laneLock = (id: string): string => `hashtextextended(current_database() || ' "kiln".lanes ' || ${id}, 0)`

/** The advisory lock under which a project's jobs are counted before more are added. */
const capLock = `hashtextextended(current_database() || ' "kiln".queue ' || project_id, 0)`

/** Counts a project's unfinished jobs, up to its cap. */
const unfinishedOf = (cap: string): string => `(
    SELECT count(*) FROM (
      SELECT FROM "kiln".lanes JOIN "kiln".queue ON queue.lane_id = lanes.id
      WHERE lanes.project_id = ${cap}.project_id LIMIT ${cap}.cap) AS unfinished)`

/**
 * Adds one accepted job: `add_jobs` for the usual creation. A function of its own, because statements over lists cost the server
 * more than the row does.
 */
const addJob = `
-- lane:    the job's lane; the fields of the job must be those of the lane
-- cap:     how many unfinished jobs its project may have; NULL where that was checked before
-- all else: as for add_jobs
-- Returns the time; -1 if the job's key is bound already; NULL where add_jobs does.
CREATE FUNCTION "kiln".add_job(id text, project_id text, key_id text, mode text, kind text, kind_version bigint, upload_id text,
  priority smallint, kept text, idempotency_key text, fingerprint text, price_id bigint, queue_limit_ms bigint, run_limit_ms bigint,
  delay_ms bigint, request text, lane bigint, cap bigint, accepted_at bigint, brief text, channel text, payload text,
  OUT accepted bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  -- Assigning the value of a function is cheaper than PERFORM.
  ignored text := set_config('lock_timeout', brief, true);
  lane_next_at bigint;
BEGIN
  IF cap IS NOT NULL THEN
    ignored := pg_advisory_xact_lock(${capLock});
    IF ${unfinishedOf("add_job")} >= cap THEN
      RETURN;
    END IF;
  END IF;

  ignored := pg_advisory_xact_lock_shared(${laneLock("lane")});
  -- The lock was granted before this statement began.
  SELECT next_at INTO lane_next_at FROM "kiln".lanes WHERE lanes.id = lane AND lanes.project_id = add_job.project_id
    AND lanes.kind = add_job.kind AND lanes.kind_version = add_job.kind_version AND lanes.mode = add_job.mode;
  IF NOT FOUND THEN
    RETURN;
  END IF;

  accepted := coalesce(accepted_at, "kiln".store_time());
  INSERT INTO "kiln".jobs (id, project_id, key_id, mode, kind, kind_version, upload_id, priority, kept, idempotency_key,
    fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms, delay_ms, request)
  VALUES (id, project_id, key_id, mode, kind, kind_version, upload_id, priority, kept, idempotency_key,
    fingerprint, price_id, accepted, queue_limit_ms, run_limit_ms, delay_ms, request)
  ON CONFLICT ON CONSTRAINT jobs_key_id_idempotency_key_key DO NOTHING;
  IF NOT FOUND THEN
    accepted := -1;
    RETURN;
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

/** Adds accepted jobs in one call. A trigger gives each its place in the queue. */
const addJobs = `
-- items:       one object a job; of is its place (from 1) in shared
-- shared:      fields that jobs have in common
-- wanted:      their lanes, each once, by id, with the shortest delay of their jobs
-- caps:        how many unfinished jobs a project may have and how many are added; NULL where that was checked before
-- accepted_at: NULL is now
-- own:         false in a transaction of a caller's, where next_at is lowered on another connection
-- patient, brief: how long it waits for its turn among processes that count a project's jobs, and for any other lock
-- channel, payload: a notification that is sent if a job is added, or NULL
-- Adds nothing and returns NULL where a lane is not what it was taken for, or a cap might be passed. Otherwise returns the time,
-- and the places (from 1) of the jobs whose key is bound already.
CREATE FUNCTION "kiln".add_jobs(items json, shared json, wanted json, caps json, accepted_at bigint, own boolean, patient text, brief text,
  channel text, payload text, OUT accepted bigint, OUT unbound json) LANGUAGE plpgsql SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
  lanes_found bigint;
  is_later boolean;
  added text[];
  step record;
BEGIN
  IF own THEN
    PERFORM set_config('lock_timeout', brief, true);
  END IF;
  IF caps IS NOT NULL THEN
    -- Processes take turns here, and each is short, so a batch may wait for its turn longer than for a row.
    PERFORM set_config('lock_timeout', patient, true);
    PERFORM pg_advisory_xact_lock(${capLock})
    FROM (SELECT project_id FROM json_to_recordset(caps) AS cap(project_id text) ORDER BY project_id OFFSET 0) AS capped;
    PERFORM set_config('lock_timeout', brief, true);
    IF EXISTS (
      SELECT FROM json_to_recordset(caps) AS cap(project_id text, cap bigint, adding bigint)
      WHERE cap.adding + ${unfinishedOf("cap")} > cap.cap) THEN
      RETURN;
    END IF;
  END IF;

  PERFORM pg_advisory_xact_lock_shared(${laneLock("id")}) FROM json_to_recordset(wanted) AS lane(id bigint);
  accepted := coalesce(accepted_at, "kiln".store_time());
  IF own THEN
    -- The locks were granted before this statement began, and keep the lanes' bounds from being raised until the commit.
    SELECT count(*), bool_or(next_at IS NULL OR next_at > accepted + lane.delay_ms) INTO lanes_found, is_later
    FROM json_to_recordset(wanted) AS lane(
      id bigint, project_id text, kind text, kind_version bigint, mode text, delay_ms bigint)
    JOIN "kiln".lanes ON lanes.id = lane.id AND lanes.project_id = lane.project_id AND lanes.kind = lane.kind
      AND lanes.kind_version = lane.kind_version AND lanes.mode = lane.mode;
    IF lanes_found < json_array_length(wanted) THEN
      accepted := NULL;
      RETURN;
    END IF;
  END IF;

  -- Numbered in the order in which they came; inserted in the order of their keys, so that two transactions cannot deadlock.
  WITH bound AS (
    INSERT INTO "kiln".jobs (seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, kept,
      idempotency_key, fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms, delay_ms, request)
    SELECT seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, coalesce(kept, '{}'),
      idempotency_key, fingerprint, price_id, accepted, queue_limit_ms, run_limit_ms, delay_ms, request
    FROM (
      SELECT nextval('"kiln".jobs_seq_seq') AS seq, item.* FROM json_to_recordset(items) AS item(
        of bigint, id text, idempotency_key text, fingerprint text, request text, kept text, upload_id text) OFFSET 0) AS numbered
    JOIN ROWS FROM (json_to_recordset(shared) AS (
      project_id text, key_id text, mode text, kind text, kind_version bigint, priority smallint,
      price_id bigint, queue_limit_ms bigint, run_limit_ms bigint, delay_ms bigint)
    ) WITH ORDINALITY AS fields ON fields.ordinality = numbered.of
    ORDER BY key_id, idempotency_key, seq
    ON CONFLICT (key_id, idempotency_key) DO NOTHING
    RETURNING id
  )
  SELECT array_agg(id) INTO added FROM bound;
  IF coalesce(cardinality(added), 0) < json_array_length(items) THEN
    -- A job may be in the list twice.
    SELECT json_agg(place ORDER BY place) INTO unbound FROM (
      SELECT place, id, row_number() OVER (PARTITION BY id ORDER BY place) AS turn
      FROM ROWS FROM (json_to_recordset(items) AS (id text)) WITH ORDINALITY AS item(id, place)) AS item
    WHERE turn > 1 OR id <> ALL (coalesce(added, '{}'));
  END IF;

  IF is_later THEN
    FOR step IN SELECT id, delay_ms FROM json_to_recordset(wanted) AS lane(id bigint, delay_ms bigint) LOOP
      UPDATE "kiln".lanes SET next_at = accepted + step.delay_ms
      WHERE id = step.id AND (next_at IS NULL OR next_at > accepted + step.delay_ms);
    END LOOP;
  END IF;
  IF channel IS NOT NULL AND added IS NOT NULL THEN
    PERFORM pg_notify(channel, payload);
  END IF;
END $$;
`

/**
 * Bookkeeping of lanes runs on the server in one call, so that no lane stays locked while a client is slow, hangs or
 * dies.
 */
const laneFunctions = `
-- Says where lanes stand after a claim served them: a lane starts at its own virtual time, or at the clock's if that is
-- later, and stands one further for each job.
CREATE FUNCTION "kiln".serve_lanes(lane_ids bigint[], starts bigint[], counts bigint[], clock bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  -- Losing this in a crash loses a turn, not a job.
  PERFORM set_config('synchronous_commit', 'off', true);
  -- In the order of the ids, as everybody locks lanes, so that no two wait for each other.
  PERFORM FROM "kiln".lanes WHERE id = ANY (lane_ids) ORDER BY id FOR NO KEY UPDATE;
  UPDATE "kiln".lanes SET virtual_time = greatest(virtual_time, served.start) + served.count
  FROM unnest(lane_ids, starts, counts) AS served(lane_id, start, count)
  WHERE id = served.lane_id AND served.count > 0;
  -- A transaction that holds the clock sets it to about the same value.
  UPDATE "kiln".fairness SET virtual_time = clock
  WHERE id = (SELECT id FROM "kiln".fairness WHERE id = 1 AND virtual_time < clock FOR NO KEY UPDATE SKIP LOCKED);
END $$;

-- Raises next_at of lanes to the time when each really has something claimable, but not while a transaction adds to the
-- lane, which holds the lane's advisory lock. Such lanes are skipped and returned; a caller's transaction may take minutes. The second statement runs after the lock was granted and so sees what was committed
-- before. In a lane the ranks lie one behind the other, so the first entry of each is looked up.
CREATE FUNCTION "kiln".settle_lanes(lane_ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
  lane bigint;
  floor bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  FOREACH lane IN ARRAY lane_ids LOOP
    SELECT next_at INTO floor FROM "kiln".lanes WHERE id = lane AND next_at IS NOT NULL FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT pg_try_advisory_xact_lock(${laneLock("lane")}) THEN
      RETURN QUERY SELECT id FROM "kiln".lanes WHERE id = lane AND next_at IS NOT NULL;
      CONTINUE;
    END IF;
    UPDATE "kiln".lanes SET next_at = (
      SELECT min(head.claimable_at) FROM ${ranksOf("lane", "floor")} AS step
      CROSS JOIN LATERAL (
        SELECT claimable_at FROM "kiln".queue
        -- Everything below the bound is gone: not looking there spares walking over what the vacuum has not removed yet.
        WHERE lane_id = lane AND priority = step.rank AND claimable_at >= floor
          AND deadline_at > greatest(claimable_at, "kiln".store_time())
        ORDER BY claimable_at LIMIT 1) AS head)
    WHERE id = lane;
  END LOOP;
END $$;
`

export const functions = addJob + addJobs + laneFunctions
