/**
 * Adds accepted jobs in one call. The lock on a lane keeps \`settle_lanes\` away until the jobs are committed, so \`next_at\` stays
 * a lower bound. Transactions of kiln lock the lane's row. Transactions of callers take an advisory lock instead, because a
 * row that changed after their snapshot could not be locked at REPEATABLE READ.
 */
const addJobs = `
-- items:       one object a job; of is its place (from 1) in shared
-- shared:      fields that jobs have in common; times are milliseconds after they are accepted
-- wanted:      their lanes, each once, by id, with the earliest of their jobs' claimable_in
-- caps:        how many unfinished jobs a project may have and how many are added; NULL where that was checked before
-- accepted_at: NULL is now
-- own:         false in a transaction of a caller's, where next_at is lowered on another connection
-- channel, payload: a notification that is sent if a job is added, or NULL
-- Adds nothing and returns NULL where a lane is not what it was taken for, or a cap might be passed. Otherwise returns the time,
-- and the places (from 1) of the jobs whose key is bound already.
CREATE FUNCTION "kiln".add_jobs(items json, shared json, wanted json, caps json, accepted_at bigint, own boolean, patient text, brief text,
  channel text, payload text, OUT accepted bigint, OUT unbound json) LANGUAGE plpgsql SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
  found_lanes bigint[];
  first_in bigint;
  is_later boolean;
  step record;
BEGIN
  IF own THEN
    PERFORM set_config('lock_timeout', brief, true);
  END IF;
  IF caps IS NOT NULL THEN
    -- Processes take turns here, and each is short, so a batch may wait for its turn longer than for a row.
    PERFORM set_config('lock_timeout', patient, true);
    PERFORM pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".queue ' || project_id, 0))
    FROM (SELECT project_id FROM json_to_recordset(caps) AS cap(project_id text) ORDER BY project_id OFFSET 0) AS capped;
    PERFORM set_config('lock_timeout', brief, true);
    IF EXISTS (
      SELECT FROM json_to_recordset(caps) AS cap(project_id text, cap bigint, adding bigint)
      WHERE cap.adding + (
        SELECT count(*) FROM (
          SELECT FROM "kiln".lanes JOIN "kiln".queue ON queue.lane_id = lanes.id
          WHERE lanes.project_id = cap.project_id LIMIT cap.cap) AS unfinished) > cap.cap) THEN
      RETURN;
    END IF;
  END IF;

  IF own THEN
    SELECT array_agg(lane.id), min(lane.claimable_in) INTO found_lanes, first_in
    FROM json_to_recordset(wanted) AS lane(
      id bigint, project_id text, kind text, kind_version bigint, mode text, claimable_in bigint)
    CROSS JOIN LATERAL (
      SELECT FROM "kiln".lanes WHERE lanes.id = lane.id AND lanes.project_id = lane.project_id AND lanes.kind = lane.kind
        AND lanes.kind_version = lane.kind_version AND lanes.mode = lane.mode
      FOR KEY SHARE) AS locked;
    IF coalesce(cardinality(found_lanes), 0) < json_array_length(wanted) THEN
      RETURN;
    END IF;
  ELSE
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(current_database() || ' "kiln".lanes ' || id, 0))
    FROM json_to_recordset(wanted) AS lane(id bigint);
  END IF;

  accepted := coalesce(accepted_at, "kiln".store_time());
  -- Numbered in the order in which they came; inserted in the order of their keys, so that two transactions cannot deadlock.
  WITH item AS MATERIALIZED (
    SELECT numbered.*, fields.* FROM (
      SELECT nextval('"kiln".jobs_seq_seq') AS seq, item.* FROM ROWS FROM (json_to_recordset(items) AS (
        of bigint, id text, idempotency_key text, fingerprint text, request text, kept text, upload_id text)
      ) WITH ORDINALITY AS item(of, id, idempotency_key, fingerprint, request, kept, upload_id, place) OFFSET 0) AS numbered
    JOIN ROWS FROM (json_to_recordset(shared) AS (
      lane_id bigint, project_id text, key_id text, mode text, kind text, kind_version bigint, priority smallint,
      price_id bigint, queue_limit_ms bigint, run_limit_ms bigint, claimable_in bigint, deadline_in bigint, phase_started_in bigint)
    ) WITH ORDINALITY AS fields ON fields.ordinality = numbered.of
  ), bound AS (
    INSERT INTO "kiln".jobs (seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, kept,
      idempotency_key, fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms)
    SELECT seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, coalesce(kept, '{}'),
      idempotency_key, fingerprint, price_id, accepted, queue_limit_ms, run_limit_ms
    FROM item ORDER BY key_id, idempotency_key, seq
    ON CONFLICT (key_id, idempotency_key) DO NOTHING
    RETURNING seq
  ), queued AS (
    INSERT INTO "kiln".queue (id, job_seq, lane_id, project_id, kind, mode, priority, created_at, queue_limit_ms,
      run_limit_ms, status, token, held, claimable_at, deadline_at, phase_started_at, ran_ms, waited_ms, attempts,
      failures, lost_workers)
    SELECT id, seq, lane_id, project_id, kind, mode, priority, accepted, queue_limit_ms, run_limit_ms, 'queued', 0, false,
      accepted + claimable_in, accepted + deadline_in, accepted + phase_started_in, 0, 0, 0, 0, 0
    FROM item JOIN bound USING (seq)
  ), stored AS (
    INSERT INTO "kiln".job_data (job_seq, request) SELECT seq, request FROM item JOIN bound USING (seq)
  )
  -- The locks were granted before this statement began, and keep the lanes' bounds from being raised until the commit.
  SELECT (SELECT json_agg(place) FROM item WHERE seq NOT IN (SELECT seq FROM bound)),
    (SELECT bool_or(next_at IS NULL OR next_at > accepted + first_in) FROM "kiln".lanes WHERE id = ANY (found_lanes))
  INTO unbound, is_later;

  IF is_later THEN
    FOR step IN SELECT id, claimable_in FROM json_to_recordset(wanted) AS lane(id bigint, claimable_in bigint) LOOP
      UPDATE "kiln".lanes SET next_at = accepted + step.claimable_in
      WHERE id = step.id AND (next_at IS NULL OR next_at > accepted + step.claimable_in);
    END LOOP;
  END IF;
  IF channel IS NOT NULL AND coalesce(json_array_length(unbound), 0) < json_array_length(items) THEN
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
-- lane: that holds a KEY SHARE lock on the row, or the advisory lock (see add_jobs). Such lanes are skipped and returned; a
-- caller's transaction may take minutes. The second statement runs after the lock was granted and so sees what was committed
-- before. In a lane the priorities lie one behind the other, so the first entry of each is looked up.
CREATE FUNCTION "kiln".settle_lanes(lane_ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
  lane bigint;
  floor bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  FOREACH lane IN ARRAY lane_ids LOOP
    SELECT next_at INTO floor FROM "kiln".lanes WHERE id = lane AND next_at IS NOT NULL FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT pg_try_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".lanes ' || lane, 0)) THEN
      RETURN QUERY SELECT id FROM "kiln".lanes WHERE id = lane AND next_at IS NOT NULL;
      CONTINUE;
    END IF;
    UPDATE "kiln".lanes SET next_at = (
      SELECT min(head.claimable_at) FROM (VALUES (2::smallint), (1::smallint), (0::smallint), (-1::smallint)) AS step(rank)
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

export const functions = addJobs + laneFunctions
