import type { Migration } from "@kiln/core/ports"

/** The chunks that jobs emit. They go with the signals of their jobs. */
export const chunks: Migration = {
  name: "0015Chunks",
  sql: `
-- No foreign key, because each new job would be checked for it.
CREATE TABLE "kiln".chunks (
  job_seq  bigint NOT NULL,
  -- From 0, without gaps, over all attempts.
  position bigint NOT NULL,
  attempt  bigint NOT NULL,
  value    text   NOT NULL,
  PRIMARY KEY (job_seq, position)
);

CREATE OR REPLACE FUNCTION "kiln".signals_go_with_jobs() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".signals WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  DELETE FROM "kiln".chunks WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  DELETE FROM "kiln".parked WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  DELETE FROM "kiln".checkpoints WHERE job_id = ANY (ARRAY(SELECT id FROM removed));
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "kiln".erase_signals() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".signals WHERE job_seq = NEW.job_seq;
  DELETE FROM "kiln".chunks WHERE job_seq = NEW.job_seq;
  DELETE FROM "kiln".checkpoints WHERE job_id = NEW.job_id;
  RETURN NULL;
END $$;
`,
}
