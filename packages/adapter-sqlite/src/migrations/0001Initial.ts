import type { Migration } from "@kiln/core/ports"
import { accessTables, boardTables, spendingTables } from "./initial/accessAndBoard.ts"
import { attemptTables, jobTables } from "./initial/jobs.ts"
import { jobTriggers } from "./initial/jobTriggers.ts"
import { uploadTables } from "./initial/uploads.ts"

/** Administrative changes. Entries are only added, and removed by age. */
const auditTable = `
CREATE TABLE kiln_audit (
  number  INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  actor   TEXT    NOT NULL,
  origin  TEXT    NOT NULL,
  action  TEXT    NOT NULL,
  subject TEXT,
  details TEXT    NOT NULL
) STRICT;
CREATE INDEX kiln_audit_times ON kiln_audit (at);

CREATE TRIGGER kiln_audit_is_final BEFORE UPDATE ON kiln_audit
BEGIN SELECT RAISE(ABORT, 'an audit entry cannot be changed'); END;
`

/** Finished jobs that `onFinished` has not confirmed yet. The statement that ends a marked job writes the row (`kiln_jobs_finishes`), whatever code runs it. */
const deliveryTables = `
CREATE TABLE kiln_deliveries (
  job_id   TEXT    NOT NULL PRIMARY KEY,
  kind     TEXT    NOT NULL,
  due_at   INTEGER NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  token    INTEGER NOT NULL CHECK (token >= 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_deliveries_due ON kiln_deliveries (kind, due_at);

-- Not a foreign key, which every insertion of a job would look up.
CREATE TRIGGER kiln_jobs_deleted_takes_delivery AFTER DELETE ON kiln_jobs
BEGIN DELETE FROM kiln_deliveries WHERE job_id = OLD.id; END;

CREATE TRIGGER kiln_deliveries_token_grows BEFORE UPDATE ON kiln_deliveries
WHEN NEW.token <= OLD.token
BEGIN SELECT RAISE(ABORT, 'the token of a delivery must increase whenever a claim begins or ends'); END;
`

/** Jobs that are submitted again and again. */
const scheduleTables = `
CREATE TABLE kiln_schedules (
  name     TEXT    NOT NULL PRIMARY KEY,
  version  INTEGER NOT NULL CHECK (version > 0),
  -- NULL while the schedule is paused.
  next_at  INTEGER,
  document TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_schedules_next ON kiln_schedules (next_at, name) WHERE next_at IS NOT NULL;
`

/** Labels by which callers find their jobs. Most jobs have no rows here. */
const submittedTables = `
-- The tags and metadata of a job, for lists and counts.
CREATE TABLE kiln_job_labels (
  label   TEXT    NOT NULL,
  job_seq INTEGER NOT NULL REFERENCES kiln_jobs (seq) ON DELETE CASCADE,
  PRIMARY KEY (label, job_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_job_labels_job ON kiln_job_labels (job_seq);

-- The job that took a scope last. Whether it still has it depends on the job.
CREATE TABLE kiln_job_scopes (
  scope   TEXT    NOT NULL PRIMARY KEY,
  job_seq INTEGER NOT NULL REFERENCES kiln_jobs (seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_job_scopes_job ON kiln_job_scopes (job_seq);
`

export const initial: Migration = {
  name: "0001Initial",
  sql:
    boardTables +
    accessTables +
    auditTable +
    jobTables +
    attemptTables +
    jobTriggers +
    uploadTables +
    spendingTables +
    scheduleTables +
    submittedTables +
    deliveryTables,
}
