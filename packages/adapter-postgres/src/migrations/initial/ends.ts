/** Ends claimed jobs in one call. Like `applyEvent` for `completed` and `failed`; stores are compared with that function. */
export const endFunction = `
-- ids, tokens:  the claims that end, in the order of the ids, so that two calls cannot deadlock
-- error_codes:  NULL for jobs that are done
-- new_files:    files of jobs that are done, each with the place of its job in ids, or NULL
-- failures:     records of attempts that failed, each with the place of its job in ids, or NULL
-- brief:        how long it waits for a lock
-- An array may be NULL as a whole. Returns NULL if every claim was held and has ended, otherwise the places (from 1) of those
-- that did. The fence is in the WHERE clause: a job that is not held under this token is not touched.
CREATE FUNCTION "kiln".end_jobs(ids text[], tokens bigint[], error_codes text[], outputs text[], warning_codes text[], charges text[],
  new_files json, failures json, brief text) RETURNS json LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  -- Assigning the value of a function is cheaper than PERFORM.
  ignored text := set_config('lock_timeout', brief, true);
  ended_at bigint := "kiln".store_time();
  places bigint[];
  -- A parameter, so that no plan searches the index of held jobs, which looks empty in statistics made while no job ran.
  is_held CONSTANT boolean := true;
BEGIN
  WITH ended AS (
    DELETE FROM "kiln".queue
    USING unnest(ids, tokens, error_codes, outputs, warning_codes, charges) WITH ORDINALITY
      AS item(id, token, error_code, output, warning_code, charge, place)
    WHERE queue.id = item.id AND queue.token = item.token AND queue.held = is_held
    RETURNING job_seq, queue.id, project_id, kind, mode, created_at, queue.token, claimable_at, phase_started_at, ran_ms, waited_ms,
      attempts, queue.failures, lost_workers, item.error_code, item.output, item.warning_code, item.charge, item.place
  ), finished AS (
    INSERT INTO "kiln".results (job_seq, job_id, project_id, kind, mode, created_at, status, token, ran_ms, waited_ms, attempts,
      failures, lost_workers, finished_at, error_code, warning_code, charge, output)
    SELECT job_seq, id, project_id, kind, mode, created_at, CASE WHEN error_code IS NULL THEN 'done' ELSE 'failed' END, token + 1,
      -- What lies behind the end of the lease counts as neither running nor waiting.
      ran_ms + greatest(0, least(ended_at, claimable_at) - phase_started_at), waited_ms, attempts,
      failures, lost_workers, ended_at, error_code, warning_code, charge, output
    FROM ended
  )
  SELECT array_agg(place) INTO places FROM ended;
  IF new_files IS NOT NULL THEN
    INSERT INTO "kiln".files (id, job_seq, name, blob_key, media_type, bytes, sha256)
    SELECT file.id, jobs.seq, name, "blobKey", "mediaType", bytes, sha256
    FROM ROWS FROM (json_to_recordset(new_files) AS (
      place bigint, id text, name text, "blobKey" text, "mediaType" text, bytes bigint, sha256 text)
    ) WITH ORDINALITY AS file JOIN "kiln".jobs ON jobs.id = ids[file.place]
    WHERE file.place = ANY (places) ORDER BY file.ordinality;
  END IF;
  IF failures IS NOT NULL THEN
    INSERT INTO "kiln".attempts (job_seq, number, error_code, message, stack, started_at, duration_ms, worker)
    SELECT job_seq, attempts, "errorCode", message, stack, ended_at - "durationMs", "durationMs", worker
    FROM json_to_recordset(failures) AS (place bigint, "errorCode" text, message text, stack text, "durationMs" bigint, worker text)
      JOIN "kiln".results ON job_id = ids[place]
    WHERE place = ANY (places);
  END IF;
  IF coalesce(cardinality(places), 0) = cardinality(ids) THEN
    RETURN NULL;
  END IF;
  RETURN to_json(coalesce(places, '{}'));
END $$;
`
