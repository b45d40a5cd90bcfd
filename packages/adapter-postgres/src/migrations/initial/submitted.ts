/** Labels by which callers find their jobs. Most jobs have no rows here. The trigger that deletes a job's data deletes them too. */
export const submittedTables = `
-- The tags and metadata of a job, for lists and counts.
CREATE TABLE "kiln".job_labels (
  label      text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  job_id     text COLLATE "C" NOT NULL,
  job_seq    bigint NOT NULL,
  PRIMARY KEY (label, created_at, job_id)
);
CREATE INDEX job_labels_job ON "kiln".job_labels (job_seq);

-- The job that took a scope last. Whether it still has it depends on the job.
CREATE TABLE "kiln".job_scopes (
  scope   text COLLATE "C" PRIMARY KEY,
  job_seq bigint NOT NULL
);
CREATE INDEX job_scopes_job ON "kiln".job_scopes (job_seq);
`
