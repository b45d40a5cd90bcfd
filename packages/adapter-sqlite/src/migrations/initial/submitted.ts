/** Labels by which callers find their jobs. Most jobs have no rows here. */
export const submittedTables = `
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
