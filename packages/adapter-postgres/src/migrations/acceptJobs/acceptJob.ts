import { boardDiffers, capLock, lastNumber, laneLock, nextNumber, uncountedLock, unfinishedOf } from "./facts.ts"

/** Creates one job without a scope and an upload: `accept_jobs` for the usual submission. Statements over lists cost the server more than the row does. */
export const acceptJob = `
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
