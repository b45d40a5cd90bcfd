import type { Migration } from "@kiln/core/ports"

/** The chunks that jobs emit. */
export const chunks: Migration = {
  name: "0011Chunks",
  sql: `
CREATE TABLE kiln_chunks (
  job_seq  INTEGER NOT NULL,
  -- From 0, without gaps, over all attempts.
  position INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  value    TEXT    NOT NULL,
  PRIMARY KEY (job_seq, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kiln_chunks_go_with_job AFTER DELETE ON kiln_jobs
BEGIN DELETE FROM kiln_chunks WHERE job_seq = OLD.seq; END;

CREATE TRIGGER kiln_chunks_are_erased AFTER UPDATE OF retained ON kiln_jobs
WHEN NEW.retained <> 'kept' AND OLD.retained = 'kept'
BEGIN DELETE FROM kiln_chunks WHERE job_seq = NEW.seq; END;
`,
}
