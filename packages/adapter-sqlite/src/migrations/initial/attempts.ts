/** Failed attempts, for operators. They are the job's data and go with it. No foreign key, because each new job would be checked for it. */
export const attemptTables = `
CREATE TABLE kiln_attempts (
  job_seq     INTEGER NOT NULL,
  number      INTEGER NOT NULL CHECK (number > 0),
  error_code  TEXT    NOT NULL,
  message     TEXT    NOT NULL,
  stack       TEXT,
  started_at  INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL CHECK (duration_ms >= 0),
  worker      TEXT    NOT NULL,
  PRIMARY KEY (job_seq, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kiln_attempts_only_while_kept BEFORE INSERT ON kiln_attempts
WHEN NOT EXISTS (SELECT 1 FROM kiln_jobs WHERE seq = NEW.job_seq AND retained = 'kept')
BEGIN SELECT RAISE(ABORT, 'an erased job cannot have records of attempts'); END;

-- Only the newest 20 of a job are kept.
CREATE TRIGGER kiln_attempts_are_few AFTER INSERT ON kiln_attempts
WHEN NEW.number > 20
BEGIN
  DELETE FROM kiln_attempts WHERE job_seq = NEW.job_seq AND number <= (
    SELECT number FROM kiln_attempts WHERE job_seq = NEW.job_seq ORDER BY number DESC LIMIT 1 OFFSET 20);
END;

CREATE TRIGGER kiln_attempts_go_with_job AFTER DELETE ON kiln_jobs
BEGIN DELETE FROM kiln_attempts WHERE job_seq = OLD.seq; END;

CREATE TRIGGER kiln_attempts_are_final BEFORE UPDATE ON kiln_attempts
BEGIN SELECT RAISE(ABORT, 'the record of an attempt cannot be changed'); END;
`
