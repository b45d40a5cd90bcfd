import { deliveryMark } from "@kiln/core/rules"

/** Guards against updates that a CHECK cannot see. `IS NOT` compares NULLs as values. */
const forbidden = [
  {
    when: `NEW.status <> OLD.status AND NOT (
    (OLD.status = 'queued' AND NEW.status IN ('processing', 'failed')) OR
    (OLD.status = 'processing' AND NEW.status IN ('done', 'failed')))`,
    message: "a job cannot change from this status to that one",
  },
  {
    when: `NEW.token < OLD.token OR (NEW.token = OLD.token AND (NEW.held <> OLD.held OR NEW.status <> OLD.status))`,
    message: "the token of a job must increase whenever a claim begins or ends",
  },
  {
    when: `OLD.finished_at IS NOT NULL AND (
    NEW.status       IS NOT OLD.status       OR NEW.token     IS NOT OLD.token     OR NEW.held         IS NOT OLD.held OR
    NEW.finished_at  IS NOT OLD.finished_at  OR NEW.ran_ms    IS NOT OLD.ran_ms    OR NEW.waited_ms    IS NOT OLD.waited_ms OR
    NEW.attempts     IS NOT OLD.attempts     OR NEW.failures  IS NOT OLD.failures  OR NEW.lost_workers IS NOT OLD.lost_workers OR
    NEW.error_code   IS NOT OLD.error_code   OR NEW.charge    IS NOT OLD.charge    OR
    (NEW.retained = OLD.retained AND (NEW.output IS NOT OLD.output OR NEW.warning_code IS NOT OLD.warning_code)))`,
    message: "a finished job cannot be changed, except to erase its data",
  },
]

/** One trigger for all of them, because each one that runs for an update costs as much as an index. */
const updates = `
CREATE TRIGGER kiln_jobs_updates BEFORE UPDATE ON kiln_jobs
WHEN ${forbidden.map(({ when }) => `(${when})`).join(" OR ")}
BEGIN SELECT CASE
${forbidden.map(({ message, when }) => `  WHEN ${when} THEN RAISE(ABORT, '${message}')`).join("\n")}
END; END;
`

const moves = `
CREATE TRIGGER kiln_jobs_begin_queued BEFORE INSERT ON kiln_jobs
WHEN NEW.status <> 'queued' OR NEW.token <> 0 OR NEW.retained <> 'kept'
BEGIN SELECT RAISE(ABORT, 'a new job must be queued'); END;

CREATE TRIGGER kiln_jobs_origin_is_final BEFORE UPDATE OF
  id, lane_id, project_id, key_id, mode, kind, kind_version, priority, kept, idempotency_key, fingerprint, price_id, created_at,
  queue_limit_ms, run_limit_ms ON kiln_jobs
BEGIN SELECT RAISE(ABORT, 'the fields a job was created with cannot be changed'); END;

CREATE TRIGGER kiln_jobs_request_is_final BEFORE UPDATE OF request ON kiln_jobs
WHEN NEW.request IS NOT NULL OR NEW.retained = OLD.retained
BEGIN SELECT RAISE(ABORT, 'the fields a job was created with cannot be changed'); END;
`

/**
 * The one thing that may change of what a job was asked for: a failed job lets go of its upload, so that a retry can consume
 * it in the same transaction. The upload is in the sweep's way again, until the new job takes it out as any job does.
 */
const uploadMoves = `
CREATE TRIGGER kiln_jobs_upload_goes_to_a_retry BEFORE UPDATE OF upload_id ON kiln_jobs
WHEN NEW.upload_id IS NOT NULL OR OLD.upload_id IS NULL OR OLD.status <> 'failed' OR OLD.retained <> 'kept'
BEGIN SELECT RAISE(ABORT, 'only a failed job can release its upload'); END;

CREATE TRIGGER kiln_jobs_upload_is_unused AFTER UPDATE OF upload_id ON kiln_jobs
BEGIN UPDATE kiln_uploads SET sweep_at = usable_until WHERE id = OLD.upload_id; END;
`

const finished = `
CREATE TRIGGER kiln_jobs_erased_once BEFORE UPDATE OF retained ON kiln_jobs
WHEN NEW.retained <> OLD.retained AND (
  NEW.retained = 'kept' OR OLD.retained = 'deleted' OR
  EXISTS (SELECT 1 FROM kiln_job_data WHERE job_seq = OLD.seq) OR
  EXISTS (SELECT 1 FROM kiln_attempts WHERE job_seq = OLD.seq) OR
  EXISTS (SELECT 1 FROM kiln_files WHERE job_seq = OLD.seq))
BEGIN SELECT RAISE(ABORT, 'an erased job cannot keep data and cannot be restored'); END;

CREATE TRIGGER kiln_jobs_deleted_when_finished BEFORE DELETE ON kiln_jobs
WHEN OLD.finished_at IS NULL
BEGIN SELECT RAISE(ABORT, 'an unfinished job cannot be deleted'); END;

CREATE TRIGGER kiln_job_data_only_while_kept BEFORE INSERT ON kiln_job_data
WHEN NOT EXISTS (SELECT 1 FROM kiln_jobs WHERE seq = NEW.job_seq AND retained = 'kept' AND request IS NULL)
BEGIN SELECT RAISE(ABORT, 'an erased job cannot have data, and a job has exactly one request'); END;

CREATE TRIGGER kiln_job_data_is_final BEFORE UPDATE ON kiln_job_data
BEGIN SELECT RAISE(ABORT, 'the fields a job was created with cannot be changed'); END;

CREATE TRIGGER kiln_checkpoints_while_held BEFORE INSERT ON kiln_checkpoints
WHEN NOT EXISTS (SELECT 1 FROM kiln_jobs WHERE seq = NEW.job_seq AND held = 1)
BEGIN SELECT RAISE(ABORT, 'a step can be saved only while a worker holds the job'); END;

-- Whatever ends a job, its steps are content that nobody needs any more, and a marked job is to be delivered. One trigger, which
-- does nothing for most jobs.
CREATE TRIGGER kiln_jobs_finishes AFTER UPDATE OF finished_at ON kiln_jobs
WHEN OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND (
  substr(NEW.kept, -${deliveryMark.length}) = '${deliveryMark}' OR
  EXISTS (SELECT 1 FROM kiln_checkpoints WHERE job_seq = NEW.seq))
BEGIN
  DELETE FROM kiln_checkpoints WHERE job_seq = NEW.seq;
  INSERT INTO kiln_deliveries (job_id, kind, due_at, attempts, token)
  SELECT NEW.id, NEW.kind, NEW.finished_at, 0, 0
  WHERE substr(NEW.kept, -${deliveryMark.length}) = '${deliveryMark}';
END;

CREATE TRIGGER kiln_files_of_done_jobs BEFORE INSERT ON kiln_files
WHEN NOT EXISTS (SELECT 1 FROM kiln_jobs WHERE seq = NEW.job_seq AND status = 'done' AND retained = 'kept')
BEGIN SELECT RAISE(ABORT, 'only a done job whose data is kept can have files'); END;

CREATE TRIGGER kiln_files_are_final BEFORE UPDATE ON kiln_files
BEGIN SELECT RAISE(ABORT, 'a file cannot be changed'); END;
`

/**
 * The ledger is written by the database itself, in the statement that makes a live job done: with
 * the CHECK that ties jobs.charge to exactly that state, there is one charge for each such job and
 * none for any other, whatever the code above does.
 */
const ledger = `
CREATE TRIGGER kiln_charges_of_live_done_jobs BEFORE INSERT ON kiln_charges
WHEN NOT EXISTS (SELECT 1 FROM kiln_jobs WHERE id = NEW.job_id AND mode = 'live' AND status = 'done')
BEGIN SELECT RAISE(ABORT, 'only a live job that is done can be charged'); END;

CREATE TRIGGER kiln_jobs_charge AFTER UPDATE OF charge ON kiln_jobs
WHEN OLD.charge IS NULL AND NEW.charge IS NOT NULL
BEGIN
  INSERT INTO kiln_charges (job_id, project_id, key_id, kind, currency, amount, line_items, charged_at)
  VALUES (NEW.id, NEW.project_id, NEW.key_id, NEW.kind,
    NEW.charge ->> '$.currency', NEW.charge ->> '$.amount', NEW.charge -> '$.lineItems',
    max(NEW.finished_at, (SELECT closed_until FROM kiln_closed_ledger)));
END;

CREATE TRIGGER kiln_closed_ledger_stays_closed BEFORE UPDATE ON kiln_closed_ledger
WHEN NEW.closed_until < OLD.closed_until
BEGIN SELECT RAISE(ABORT, 'a closed part of the ledger cannot be opened again'); END;

CREATE TRIGGER kiln_charges_after_the_close BEFORE INSERT ON kiln_charges
WHEN NEW.charged_at < (SELECT closed_until FROM kiln_closed_ledger)
BEGIN SELECT RAISE(ABORT, 'the ledger is closed for the time of this charge'); END;

CREATE TRIGGER kiln_charges_are_final BEFORE UPDATE ON kiln_charges
BEGIN SELECT RAISE(ABORT, 'a charge cannot be changed'); END;

CREATE TRIGGER kiln_charges_stay BEFORE DELETE ON kiln_charges
BEGIN SELECT RAISE(ABORT, 'a charge cannot be deleted'); END;
`

export const jobTriggers = updates + moves + uploadMoves + finished + ledger
