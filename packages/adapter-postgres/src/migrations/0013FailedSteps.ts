import type { Migration } from "@kiln/core/ports"

/** Failed jobs keep the values of their finished steps for a retry, until their data is erased. The other rules are as before. */
export const failedSteps: Migration = {
  name: "0013FailedSteps",
  sql: `
CREATE OR REPLACE FUNCTION "kiln".unfinished_stays() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM removed WHERE NOT EXISTS (
      SELECT FROM "kiln".results WHERE job_seq = removed.job_seq AND job_id = removed.id AND
        project_id = removed.project_id AND kind = removed.kind AND mode = removed.mode AND
        created_at = removed.created_at AND token > removed.token AND
        (status = 'failed' OR (status = 'done' AND removed.held)) OFFSET 0)) THEN
    RAISE EXCEPTION 'a job leaves the queue exactly when it ends';
  END IF;
  -- The result is read only of jobs that have checkpoints.
  DELETE FROM "kiln".checkpoints WHERE job_id = ANY (ARRAY(SELECT id FROM removed)) AND 'done' = (
    SELECT results.status FROM "kiln".jobs JOIN "kiln".results ON results.job_seq = jobs.seq
    WHERE jobs.id = checkpoints.job_id OFFSET 0);
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "kiln".signals_go_with_jobs() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".signals WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  DELETE FROM "kiln".parked WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  DELETE FROM "kiln".checkpoints WHERE job_id = ANY (ARRAY(SELECT id FROM removed));
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "kiln".erase_signals() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".signals WHERE job_seq = NEW.job_seq;
  DELETE FROM "kiln".checkpoints WHERE job_id = NEW.job_id;
  RETURN NULL;
END $$;
`,
}
