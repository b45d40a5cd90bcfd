import type { Migration } from "@kiln/core/ports"

/** The jobs that start after this one. */
const dependents = "SELECT job_seq FROM kiln_job_labels WHERE label = '~' || NEW.id"

/** Jobs that are parked until others have finished. */
export const prerequisites: Migration = {
  name: "0010Prerequisites",
  sql: `
-- Whatever ends the last prerequisite of a job, the job that is parked on it goes on. The signs and the function keep the planner from
-- reading all unfinished jobs.
CREATE TRIGGER kiln_jobs_wake_dependents AFTER UPDATE OF finished_at ON kiln_jobs
WHEN OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND EXISTS (${dependents})
BEGIN
  UPDATE kiln_parked SET unfinished = unfinished - 1 WHERE job_seq IN (${dependents}) AND reason = 'after';
  UPDATE kiln_jobs SET claimable_at = NEW.finished_at, phase_started_at = NEW.finished_at,
    deadline_at = NEW.finished_at + max(0, queue_limit_ms - waited_ms)
  WHERE seq IN (${dependents}) AND status = 'processing' AND +held = 0 AND coalesce(claimable_at, 0) > NEW.finished_at AND EXISTS (
    SELECT 1 FROM kiln_parked WHERE job_seq = kiln_jobs.seq AND token = kiln_jobs.token AND reason = 'after' AND unfinished <= 0);
  UPDATE kiln_lanes SET next_at = NEW.finished_at
  WHERE (next_at IS NULL OR next_at > NEW.finished_at) AND id IN (
    SELECT lane_id FROM kiln_jobs WHERE seq IN (${dependents}) AND coalesce(claimable_at, 0) = NEW.finished_at AND +held = 0);
END;
`,
}
