import type { Migration } from "@kiln/core/ports"

/** Runs of attempts that ended to wait, and what each worker serves. */
export const waits: Migration = {
  name: "0005Waits",
  sql: `
CREATE TABLE kiln_waits (
  job_seq       INTEGER NOT NULL,
  first_attempt INTEGER NOT NULL CHECK (first_attempt > 0),
  last_attempt  INTEGER NOT NULL CHECK (last_attempt >= first_attempt),
  count         INTEGER NOT NULL CHECK (count > 0),
  reason        TEXT    NOT NULL,
  subject       TEXT,
  cause         TEXT,
  first_at      INTEGER NOT NULL,
  last_at       INTEGER NOT NULL,
  PRIMARY KEY (job_seq, first_attempt)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kiln_waits_go_with_job AFTER DELETE ON kiln_jobs
BEGIN DELETE FROM kiln_waits WHERE job_seq = OLD.seq; END;

-- A JSON text; NULL for a worker of an earlier version, which does not tell.
ALTER TABLE kiln_workers ADD COLUMN scope TEXT;
`,
}
