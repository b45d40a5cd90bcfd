/** Failed attempts, for operators. They are the job's data and go with it. Triggers do what a foreign key would, once a statement. */
export const attemptTables = `
CREATE TABLE "kiln".attempts (
  job_seq     bigint NOT NULL,
  number      bigint NOT NULL CHECK (number > 0),
  error_code  text   NOT NULL,
  message     text   NOT NULL,
  stack       text,
  started_at  bigint NOT NULL,
  duration_ms bigint NOT NULL CHECK (duration_ms >= 0),
  worker      text   NOT NULL,
  PRIMARY KEY (job_seq, number)
);

-- Only the newest 20 of a job are kept.
CREATE FUNCTION "kiln".attempts_only_while_kept() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF EXISTS (SELECT FROM added WHERE
      NOT EXISTS (SELECT FROM "kiln".jobs WHERE seq = added.job_seq OFFSET 0) OR
      EXISTS (SELECT FROM "kiln".results WHERE job_seq = added.job_seq AND retained <> 'kept' OFFSET 0)) THEN
    RAISE EXCEPTION 'the record of an attempt needs a job that exists and is not erased';
  END IF;
  IF EXISTS (SELECT FROM added WHERE number > 20) THEN
    DELETE FROM "kiln".attempts USING added WHERE attempts.job_seq = added.job_seq AND attempts.number <= (
      SELECT newer.number FROM "kiln".attempts AS newer WHERE newer.job_seq = added.job_seq
      ORDER BY newer.number DESC LIMIT 1 OFFSET 20);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER attempts_only_while_kept AFTER INSERT ON "kiln".attempts REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".attempts_only_while_kept();
CREATE TRIGGER attempts_are_final BEFORE UPDATE ON "kiln".attempts
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('the record of an attempt cannot be changed');
`
