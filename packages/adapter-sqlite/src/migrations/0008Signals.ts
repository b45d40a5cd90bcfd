import type { Migration } from "@kiln/core/ports"

const parent = (part: "jobId" | "step"): string => `NEW.kept ->> '$."kiln:submitted".parent.${part}'`

/** Jobs that are parked, and the signals of jobs. */
export const signals: Migration = {
  name: "0008Signals",
  sql: `
-- One that is over stays until its job is parked again, or deleted.
CREATE TABLE kiln_parked (
  job_seq    INTEGER NOT NULL PRIMARY KEY,
  -- The job's token since then. The job is parked as long as nobody holds it and its token is this one.
  token      INTEGER NOT NULL,
  reason     TEXT    NOT NULL,
  subject    TEXT    NOT NULL,
  -- Children of the step that have not finished; 0 for other reasons.
  unfinished INTEGER NOT NULL,
  parked_at  INTEGER NOT NULL
) STRICT;

-- The first value of each name.
CREATE TABLE kiln_signals (
  job_seq INTEGER NOT NULL,
  name    TEXT    NOT NULL,
  value   TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (job_seq, name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kiln_signals_go_with_job AFTER DELETE ON kiln_jobs
BEGIN
  DELETE FROM kiln_signals WHERE job_seq = OLD.seq;
  DELETE FROM kiln_parked WHERE job_seq = OLD.seq;
END;

CREATE TRIGGER kiln_signals_are_erased AFTER UPDATE OF retained ON kiln_jobs
WHEN NEW.retained <> 'kept' AND OLD.retained = 'kept'
BEGIN DELETE FROM kiln_signals WHERE job_seq = NEW.seq; END;

-- Whatever ends the last child of a step, the parent that is parked on them goes on. A trigger, because a process of the previous version
-- may end the child.
CREATE TRIGGER kiln_jobs_wake_parent AFTER UPDATE OF finished_at ON kiln_jobs
WHEN OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND instr(NEW.kept, '"parent":{') > 0
BEGIN
  UPDATE kiln_parked SET unfinished = unfinished - 1
  WHERE job_seq = (SELECT seq FROM kiln_jobs WHERE id = ${parent("jobId")}) AND reason = 'children' AND subject = ${parent("step")};
  UPDATE kiln_jobs SET claimable_at = NEW.finished_at, phase_started_at = NEW.finished_at,
    deadline_at = NEW.finished_at + max(0, queue_limit_ms - waited_ms)
  WHERE id = ${parent("jobId")} AND status = 'processing' AND held = 0 AND claimable_at > NEW.finished_at AND EXISTS (
    SELECT 1 FROM kiln_parked WHERE job_seq = kiln_jobs.seq AND token = kiln_jobs.token AND reason = 'children' AND
      subject = ${parent("step")} AND unfinished <= 0);
  UPDATE kiln_lanes SET next_at = NEW.finished_at
  WHERE id = (SELECT lane_id FROM kiln_jobs WHERE id = ${parent("jobId")} AND claimable_at = NEW.finished_at AND held = 0) AND
    (next_at IS NULL OR next_at > NEW.finished_at);
END;
`,
}
