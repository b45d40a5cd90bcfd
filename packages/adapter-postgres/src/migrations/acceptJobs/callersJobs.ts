import { lastNumber, unfinishedOf } from "./facts.ts"

/** Creates jobs in a transaction of a caller's with one statement. Its parameters are those of `0007CreateJobs`. */
export const callersJobs = `
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
