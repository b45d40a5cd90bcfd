import { deliveryMark } from "@kiln/core/rules"
import type { Migration } from "@kiln/core/ports"

/** Failed jobs keep the values of their finished steps for a retry, until their data is erased. */
export const failedSteps: Migration = {
  name: "0009FailedSteps",
  sql: `
DROP TRIGGER kiln_jobs_finishes;

-- The steps of a done job are content that nobody needs any more, and a marked job is to be delivered, whatever ends it. One trigger,
-- which does nothing for most jobs.
CREATE TRIGGER kiln_jobs_finishes AFTER UPDATE OF finished_at ON kiln_jobs
WHEN OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND (
  substr(NEW.kept, -${deliveryMark.length}) = '${deliveryMark}' OR
  EXISTS (SELECT 1 FROM kiln_checkpoints WHERE job_seq = NEW.seq))
BEGIN
  DELETE FROM kiln_checkpoints WHERE job_seq = NEW.seq AND NEW.status = 'done';
  INSERT INTO kiln_deliveries (job_id, kind, due_at, attempts, token)
  SELECT NEW.id, NEW.kind, NEW.finished_at, 0, 0
  WHERE substr(NEW.kept, -${deliveryMark.length}) = '${deliveryMark}';
END;

DROP TRIGGER kiln_signals_are_erased;

CREATE TRIGGER kiln_signals_are_erased AFTER UPDATE OF retained ON kiln_jobs
WHEN NEW.retained <> 'kept' AND OLD.retained = 'kept'
BEGIN
  DELETE FROM kiln_signals WHERE job_seq = NEW.seq;
  DELETE FROM kiln_checkpoints WHERE job_seq = NEW.seq;
END;
`,
}
