import { uploadFaults } from "@kiln/core/rules"
import type { Migration } from "@kiln/core/ports"

/** The bytes that an upload keeps: its file's, or what a transfer in progress reserves. */
const bytesOf = (row: string): string =>
  `coalesce(${row}.bytes, CASE WHEN ${row}.claimed_until IS NOT NULL THEN ${row}.reserved_bytes END, 0)`

const count = (project: string, mode: string, uploads: string, files: string): string => `
  INSERT INTO kiln_kept_bytes (project_id, mode, uploads, files) SELECT ${project}, ${mode}, ${uploads}, ${files} WHERE true
  ON CONFLICT (project_id, mode) DO UPDATE SET uploads = uploads + excluded.uploads, files = files + excluded.files;`

const countFile = (row: string, bytes: string): string => `
  INSERT INTO kiln_kept_bytes (project_id, mode, uploads, files)
  SELECT project_id, mode, 0, ${bytes} FROM kiln_jobs WHERE seq = ${row}.job_seq
  ON CONFLICT (project_id, mode) DO UPDATE SET files = files + excluded.files;`

/**
 * Counts the bytes that a project keeps. Triggers count, in the statement that keeps or erases them, so whatever code runs it, the sums
 * are right. Of a job that is deleted, the files are counted before, because the job is gone when they are deleted.
 */
const keptBytes = `
-- What the transfer in progress may store at most.
ALTER TABLE kiln_uploads ADD COLUMN reserved_bytes INTEGER;

CREATE TABLE kiln_kept_bytes (
  project_id TEXT NOT NULL,
  mode       TEXT NOT NULL,
  uploads    INTEGER NOT NULL,
  files      INTEGER NOT NULL,
  PRIMARY KEY (project_id, mode)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kiln_uploads_count_bytes AFTER UPDATE OF bytes, claimed_until, reserved_bytes ON kiln_uploads
WHEN ${bytesOf("NEW")} <> ${bytesOf("OLD")}
BEGIN ${count("NEW.project_id", "NEW.mode", `${bytesOf("NEW")} - ${bytesOf("OLD")}`, "0")} END;

CREATE TRIGGER kiln_uploads_count_deleted AFTER DELETE ON kiln_uploads
WHEN ${bytesOf("OLD")} > 0
BEGIN ${count("OLD.project_id", "OLD.mode", `-${bytesOf("OLD")}`, "0")} END;

CREATE TRIGGER kiln_files_count_added AFTER INSERT ON kiln_files
BEGIN ${countFile("NEW", "NEW.bytes")} END;

CREATE TRIGGER kiln_files_count_removed AFTER DELETE ON kiln_files
BEGIN ${countFile("OLD", "-OLD.bytes")} END;

CREATE TRIGGER kiln_jobs_count_files BEFORE DELETE ON kiln_jobs
WHEN EXISTS (SELECT 1 FROM kiln_files WHERE job_seq = OLD.seq)
BEGIN ${count("OLD.project_id", "OLD.mode", "0", "-(SELECT sum(bytes) FROM kiln_files WHERE job_seq = OLD.seq)")} END;

INSERT INTO kiln_kept_bytes (project_id, mode, uploads, files)
SELECT project_id, mode, sum(uploads), sum(files) FROM (
  SELECT project_id, mode, bytes AS uploads, 0 AS files FROM kiln_uploads WHERE bytes > 0
  UNION ALL
  SELECT kiln_jobs.project_id, kiln_jobs.mode, 0, kiln_files.bytes FROM kiln_files JOIN kiln_jobs ON kiln_jobs.seq = kiln_files.job_seq
) GROUP BY project_id, mode;
`

/** An upload that cannot be used is erased with the failure of its job. */
const faultyUploads = `
CREATE TRIGGER kiln_jobs_erase_faulty_upload AFTER UPDATE OF finished_at ON kiln_jobs
WHEN OLD.finished_at IS NULL AND NEW.upload_id IS NOT NULL
  AND NEW.error_code IN (${uploadFaults.map((code) => `'${code}'`).join(", ")})
BEGIN
  INSERT INTO kiln_purges (blob_prefix, recorded_at)
  SELECT 'uploads/' || substr(id, 5), NEW.finished_at FROM kiln_uploads WHERE id = NEW.upload_id AND erased = 0
  ON CONFLICT (blob_prefix) DO NOTHING;
  UPDATE kiln_uploads SET erased = 1, blob_key = NULL, bytes = NULL, sha256 = NULL, sweep_at = NULL
  WHERE id = NEW.upload_id AND erased = 0;
END;
`

export const limits: Migration = { name: "0003Limits", sql: keptBytes + faultyUploads }
