import type { Migration } from "@kiln/core/ports"

/** Runs of attempts that ended to wait, and what each worker serves. */
export const waits: Migration = {
  name: "0005Waits",
  sql: `
-- No foreign key, because each new job would be checked for it.
CREATE TABLE "kiln".waits (
  job_seq       bigint NOT NULL,
  first_attempt bigint NOT NULL CHECK (first_attempt > 0),
  last_attempt  bigint NOT NULL CHECK (last_attempt >= first_attempt),
  count         bigint NOT NULL CHECK (count > 0),
  reason        text   NOT NULL,
  subject       text,
  cause         text,
  first_at      bigint NOT NULL,
  last_at       bigint NOT NULL,
  PRIMARY KEY (job_seq, first_attempt)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- A trigger of its own, because a process of the previous version may delete jobs.
CREATE FUNCTION "kiln".waits_go_with_jobs() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".waits WHERE job_seq = ANY (ARRAY(SELECT seq FROM removed));
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_take_waits_along AFTER DELETE ON "kiln".jobs REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".waits_go_with_jobs();

-- A JSON text; NULL for a worker of an earlier version, which does not tell.
ALTER TABLE "kiln".workers ADD COLUMN scope text;
`,
}
