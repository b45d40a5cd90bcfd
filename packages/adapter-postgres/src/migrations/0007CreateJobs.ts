import type { Migration } from "@kiln/core/ports"

/** The lock that transactions which add jobs to a lane share, as `0006LaneLocks` defines it. */
const laneLock = (id: string): string =>
  `hashtextextended(current_database() || ' "kiln".lanes mod 256 ' || ${id} % 256, 0)`

/** The lock under which a project's jobs are counted before more are added. */
const capLock = `hashtextextended(current_database() || ' "kiln".queue ' || project_id, 0)`

/** Counts a project's unfinished jobs, up to its cap. */
const unfinishedOf = (cap: string): string => `(
    SELECT count(*) FROM (
      SELECT FROM "kiln".lanes JOIN "kiln".queue ON queue.lane_id = lanes.id
      WHERE lanes.project_id = ${cap}.project_id LIMIT ${cap}.cap) AS unfinished)`

/** Whether switches or prices have changed since the process read them. Without a row, nothing was ever set. */
const boardDiffers = `coalesce((SELECT version FROM "kiln".board_version WHERE board_version.id = 1), '') <> board`

/**
 * The version of switches and prices. A random value, not a count: after a restore to an earlier time, no two boards share one. Triggers
 * write it, so changes by processes of the previous version count too.
 */
const boardVersion = `
CREATE TABLE "kiln".board_version (
  id      smallint PRIMARY KEY CHECK (id = 1),
  version text NOT NULL
);

CREATE FUNCTION "kiln".change_board() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO "kiln".board_version AS known (id, version) VALUES (1, gen_random_uuid()::text)
  ON CONFLICT (id) DO UPDATE SET version = excluded.version;
  RETURN NULL;
END $$;
CREATE TRIGGER switches_change_board AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON "kiln".switches
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".change_board();
CREATE TRIGGER prices_change_board AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON "kiln".prices
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".change_board();
`

/** Creates one job without a scope and an upload: `create_jobs` for the usual submission. Statements over lists cost the server more than the row does. */
const createJob = `
-- lane:   the job's lane; the fields of the job must be those of the lane
-- cap:    how many unfinished jobs its project may have; NULL where that was checked before
-- labels: an array of texts, or NULL
-- all else: as for create_jobs
-- Returns the time, or the reason why nothing was written: -1 the key is bound, -2 board, -3 capped, -4 full, NULL lanes
CREATE FUNCTION "kiln".create_job(id text, project_id text, key_id text, mode text, kind text, kind_version bigint,
  priority smallint, kept text, idempotency_key text, fingerprint text, price_id bigint, queue_limit_ms bigint, run_limit_ms bigint,
  delay_ms bigint, request text, labels json, lane bigint, cap bigint, board text, served_until bigint, accepted_at bigint,
  brief text, channel text, payload text, OUT accepted bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  -- Assigning the value of a function is cheaper than PERFORM.
  ignored text := set_config('lock_timeout', brief, true);
  lane_next_at bigint;
  number bigint;
BEGIN
  IF cap IS NOT NULL THEN
    ignored := pg_advisory_xact_lock(${capLock});
    IF ${unfinishedOf("create_job")} >= cap THEN
      accepted := -4;
      RETURN;
    END IF;
  END IF;

  ignored := pg_advisory_xact_lock_shared(${laneLock("lane")});
  -- The lock was granted before this statement began.
  SELECT next_at INTO lane_next_at FROM "kiln".lanes WHERE lanes.id = lane AND lanes.project_id = create_job.project_id
    AND lanes.kind = create_job.kind AND lanes.kind_version = create_job.kind_version AND lanes.mode = create_job.mode;
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

  INSERT INTO "kiln".jobs (id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key,
    fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms, delay_ms, request)
  VALUES (id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key,
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

/**
 * Writes jobs that a process has decided to accept, after it has compared the facts that decided. Locks are taken in the order in which
 * the path by the facts takes them: scopes, uploads, caps, lanes. Everything is compared once all locks are held.
 */
const createJobs = `
-- items:    one object a job; of is its place (from 1) in shared
-- shared:   fields that jobs have in common
-- wanted:   their lanes, each once, by id, with the shortest delay of their jobs
-- caps:     how many unfinished jobs a project may have and how many are added; NULL where that was checked before
-- labels:   the labels by which jobs are found, or NULL
-- scopes:   the scopes of unique jobs, each once, or NULL. age_ms: milliseconds for which another job keeps the scope; NULL: until it has finished
-- consumed: the uploads of jobs, each once, or NULL
-- board:    the version of the board by which jobs behind a gate were accepted; NULL without any
-- served_until: the last time at which a live worker counts as present, or NULL
-- accepted_at: the time at which everything was decided under locks, so that nothing is compared; NULL is now
-- own:      false in a transaction of a caller's, where next_at is lowered on another connection
-- patient, brief: how long it waits for its turn among processes that count a project's jobs, and for any other lock
-- channel, payload: a notification that is sent if a job is added, or NULL
-- Returns the time, and the places (from 1) of jobs that were not added: their key is bound, or their scope or upload is not free.
-- Where it adds nothing, it returns the reason: lanes, board, full, or capped where spending has to be counted
CREATE FUNCTION "kiln".create_jobs(items json, shared json, wanted json, caps json, labels json, scopes json, consumed json,
  board text, served_until bigint, accepted_at bigint, own boolean, patient text, brief text, channel text, payload text,
  OUT accepted bigint, OUT refused json, OUT reason text) LANGUAGE plpgsql SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
  compares boolean := accepted_at IS NULL;
  locked text[];
  lanes_found bigint;
  is_later boolean;
  unfit bigint[] := '{}';
  added text[];
  seqs bigint[];
  step record;
BEGIN
  IF own THEN
    PERFORM set_config('lock_timeout', brief, true);
  END IF;
  <<creation>>
  BEGIN
    IF compares AND scopes IS NOT NULL THEN
      -- A scope that no job has gets a row to lock.
      INSERT INTO "kiln".job_scopes (scope, job_seq)
      SELECT scope, 0 FROM (
        SELECT scope FROM json_to_recordset(scopes) AS taken(scope text) ORDER BY scope OFFSET 0) AS ordered
      ON CONFLICT (scope) DO NOTHING;
      SELECT array_agg(scope) INTO locked FROM (
        SELECT scope FROM "kiln".job_scopes
        WHERE scope = ANY (ARRAY(SELECT taken.scope FROM json_to_recordset(scopes) AS taken(scope text)))
        ORDER BY scope FOR NO KEY UPDATE) AS held;
    END IF;
    IF compares AND consumed IS NOT NULL THEN
      PERFORM FROM "kiln".uploads
      WHERE id = ANY (ARRAY(SELECT used.id FROM json_to_recordset(consumed) AS used(id text))) ORDER BY id FOR UPDATE;
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
        reason := 'full';
        EXIT creation;
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
        reason := 'lanes';
        EXIT creation;
      END IF;
    END IF;
    IF board IS NOT NULL THEN
      IF accepted > served_until OR ${boardDiffers} THEN
        reason := 'board';
        EXIT creation;
      END IF;
      IF EXISTS (
        SELECT FROM json_to_recordset(shared) AS fields(project_id text, key_id text, price_id bigint)
        WHERE price_id IS NOT NULL AND EXISTS (
          SELECT FROM "kiln".spend_caps WHERE owner IN (fields.project_id, fields.key_id) OFFSET 0)) THEN
        reason := 'capped';
        EXIT creation;
      END IF;
    END IF;
    IF compares AND scopes IS NOT NULL THEN
      unfit := ARRAY(
        SELECT place FROM json_to_recordset(scopes) AS taken(place bigint, scope text, age_ms bigint)
        WHERE taken.scope <> ALL (coalesce(locked, '{}')) OR EXISTS (
          SELECT FROM "kiln".job_scopes JOIN "kiln".jobs ON jobs.seq = job_scopes.job_seq
          WHERE job_scopes.scope = taken.scope AND CASE WHEN taken.age_ms IS NULL
            THEN NOT EXISTS (SELECT FROM "kiln".results WHERE results.job_seq = jobs.seq OFFSET 0)
            ELSE accepted < jobs.created_at + taken.age_ms END OFFSET 0));
    END IF;
    IF compares AND consumed IS NOT NULL THEN
      unfit := unfit || ARRAY(
        SELECT place FROM json_to_recordset(consumed) AS used(place bigint, id text, project_id text, key_id text, mode text)
        WHERE NOT EXISTS (
          SELECT FROM "kiln".uploads
          WHERE uploads.id = used.id AND uploads.project_id = used.project_id AND uploads.key_id = used.key_id
            AND uploads.mode = used.mode AND blob_key IS NOT NULL AND NOT erased AND accepted < usable_until
            AND NOT EXISTS (SELECT FROM "kiln".jobs WHERE jobs.upload_id = used.id OFFSET 0) OFFSET 0));
    END IF;

    -- Numbered in the order in which they came; inserted in the order of their keys, so that two transactions cannot deadlock.
    WITH bound AS (
      INSERT INTO "kiln".jobs (seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, kept,
        idempotency_key, fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms, delay_ms, request)
      SELECT seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, coalesce(kept, '{}'),
        idempotency_key, fingerprint, price_id, accepted, queue_limit_ms, run_limit_ms, delay_ms, request
      FROM (
        SELECT nextval('"kiln".jobs_seq_seq') AS seq, item.* FROM ROWS FROM (json_to_recordset(items) AS (
          of bigint, id text, idempotency_key text, fingerprint text, request text, kept text, upload_id text)
        ) WITH ORDINALITY AS item(of, id, idempotency_key, fingerprint, request, kept, upload_id, place)
        WHERE place <> ALL (unfit) OFFSET 0) AS numbered
      JOIN ROWS FROM (json_to_recordset(shared) AS (
        project_id text, key_id text, mode text, kind text, kind_version bigint, priority smallint,
        price_id bigint, queue_limit_ms bigint, run_limit_ms bigint, delay_ms bigint)
      ) WITH ORDINALITY AS fields ON fields.ordinality = numbered.of
      ORDER BY key_id, idempotency_key, seq
      ON CONFLICT (key_id, idempotency_key) DO NOTHING
      RETURNING id, seq
    )
    SELECT array_agg(id), array_agg(seq) INTO added, seqs FROM bound;
    IF coalesce(cardinality(added), 0) < json_array_length(items) THEN
      -- A job may be in the list twice.
      SELECT json_agg(place ORDER BY place) INTO refused FROM (
        SELECT place, id, row_number() OVER (PARTITION BY id ORDER BY place) AS turn
        FROM ROWS FROM (json_to_recordset(items) AS (id text)) WITH ORDINALITY AS item(id, place)) AS item
      WHERE turn > 1 OR id <> ALL (coalesce(added, '{}'));
    END IF;

    IF labels IS NOT NULL THEN
      INSERT INTO "kiln".job_labels (label, created_at, job_id, job_seq)
      SELECT given.label, accepted, job.id, job.seq FROM json_to_recordset(labels) AS given(id text, label text)
      JOIN unnest(added, seqs) AS job(id, seq) ON job.id = given.id
      ON CONFLICT DO NOTHING;
    END IF;
    IF scopes IS NOT NULL THEN
      UPDATE "kiln".job_scopes SET job_seq = job.seq
      FROM json_to_recordset(scopes) AS taken(id text, scope text) JOIN unnest(added, seqs) AS job(id, seq) ON job.id = taken.id
      WHERE job_scopes.scope = taken.scope;
    END IF;
    IF consumed IS NOT NULL THEN
      -- Removes the uploads from the index of the sweep.
      UPDATE "kiln".uploads SET sweep_at = NULL WHERE uploads.id = ANY (ARRAY(
        SELECT used.id FROM json_to_recordset(consumed) AS used(id text, job text) WHERE used.job = ANY (added)));
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
  END creation;

  IF reason IS NOT NULL THEN
    accepted := NULL;
  END IF;
  IF compares AND scopes IS NOT NULL AND (reason IS NOT NULL OR refused IS NOT NULL) THEN
    DELETE FROM "kiln".job_scopes WHERE job_seq = 0 AND scope = ANY (locked);
  END IF;
END $$;
`

/** Creates jobs in a transaction of a caller's with one statement. */
const createCallersJobs = `
-- place: where the caller takes the tables to be: the server's start, the database, the table
-- all else: as for create_jobs; caps are counted without a lock
-- Returns JSON. Adds either all jobs or none; an error of the server is undone and returned, so that the transaction stays usable.
-- answer: added, with the time and whether next_at of a lane may be too late
--         failed, with the error
--         or why this has to be decided by several statements: busy, elsewhere, lanes, board, full, capped, refused, snapshot
CREATE FUNCTION "kiln".create_callers_jobs(place text, items text, shared text, wanted text, caps text, labels text, scopes text,
  consumed text, board text, served_until text, channel text, payload text) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_material = off SET array_nulls = on SET bytea_output = hex SET extra_float_digits = 1 AS $$
DECLARE
  mark tid;
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
    SELECT FROM json_to_recordset(caps::json) AS cap(project_id text, cap bigint, adding bigint)
    WHERE cap.adding + ${unfinishedOf("cap")} > cap.cap) THEN
    RETURN '{"answer":"full"}';
  END IF;

  BEGIN
    INSERT INTO "kiln".caller_marks VALUES (statement_timestamp()) RETURNING ctid INTO mark;
    -- By its place, because the table has the remains of earlier calls.
    DELETE FROM "kiln".caller_marks WHERE ctid = mark;
    SELECT * INTO added FROM "kiln".create_jobs(items::json, shared::json, wanted::json, NULL, labels::json, scopes::json,
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
 * Lets one statement create jobs with a price, tags, a scope or an upload: a process decides by facts that it remembers, and the
 * statement compares them. `add_job`, `add_jobs` and `add_callers_jobs` stay for processes of the previous version.
 */
export const createJobsAtOnce: Migration = {
  name: "0007CreateJobs",
  sql: boardVersion + createJob + createJobs + createCallersJobs,
}
