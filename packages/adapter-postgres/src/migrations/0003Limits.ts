import { uploadFaults } from "@kiln/core/rules"
import type { Migration } from "@kiln/core/ports"

/**
 * A reservation for a job in a transaction of a caller's is written and committed before that transaction ends, so that no lock on a
 * cap is held until then. It counts until the transaction has ended without the job.
 */
const callersReservations = `
-- The caller's transaction; NULL for a job that was created in a transaction of kiln's, and once the job was seen.
ALTER TABLE "kiln".spending ADD COLUMN caller_xid xid8;
CREATE INDEX spending_of_callers ON "kiln".spending (owner) WHERE caller_xid IS NOT NULL;
`

/** The bytes that an upload keeps: its file's, or what a transfer in progress reserves. */
const bytesOf = (row: string): string =>
  `coalesce(${row}.bytes, CASE WHEN ${row}.claimed_until IS NOT NULL THEN ${row}.reserved_bytes END, 0)`

/**
 * Counts the bytes that a project keeps. Triggers count, in the statement that keeps or erases them, so whatever code runs it, the sums
 * are right.
 */
const keptBytes = `
-- What the transfer in progress may store at most.
ALTER TABLE "kiln".uploads ADD COLUMN reserved_bytes bigint;

-- A project has several rows, whose sum counts, so that transactions that finish its jobs at the same time seldom wait for each other.
CREATE TABLE "kiln".kept_bytes (
  project_id text COLLATE "C" NOT NULL,
  mode       text   NOT NULL,
  slot       integer NOT NULL,
  uploads    bigint NOT NULL,
  files      bigint NOT NULL,
  PRIMARY KEY (project_id, mode, slot)
) WITH (fillfactor = 50);

CREATE FUNCTION "kiln".keep_bytes(project text, in_mode text, of_uploads bigint, of_files bigint) RETURNS void LANGUAGE sql AS $$
  INSERT INTO "kiln".kept_bytes (project_id, mode, slot, uploads, files)
  VALUES (project, in_mode, pg_backend_pid() % 16, of_uploads, of_files)
  ON CONFLICT (project_id, mode, slot) DO UPDATE SET
    uploads = kept_bytes.uploads + excluded.uploads, files = kept_bytes.files + excluded.files;
$$;

CREATE FUNCTION "kiln".count_upload() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  change bigint := -${bytesOf("OLD")};
BEGIN
  IF TG_OP = 'UPDATE' THEN
    change := change + ${bytesOf("NEW")};
  END IF;
  IF change <> 0 THEN
    PERFORM "kiln".keep_bytes(OLD.project_id, OLD.mode, change, 0);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER uploads_count_bytes AFTER UPDATE OF bytes, claimed_until, reserved_bytes OR DELETE ON "kiln".uploads
FOR EACH ROW EXECUTE FUNCTION "kiln".count_upload();

-- Of a job that is deleted, the files are counted before, because the job is gone when they are deleted.
CREATE FUNCTION "kiln".count_files() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  PERFORM "kiln".keep_bytes(project_id, mode, 0, CASE TG_OP WHEN 'INSERT' THEN bytes ELSE -bytes END) FROM (
    SELECT jobs.project_id, jobs.mode, sum(changed.bytes)::bigint AS bytes
    FROM changed JOIN "kiln".jobs ON jobs.seq = changed.job_seq
    GROUP BY jobs.project_id, jobs.mode ORDER BY jobs.project_id, jobs.mode OFFSET 0) AS counted;
  RETURN NULL;
END $$;
CREATE TRIGGER files_count_added AFTER INSERT ON "kiln".files REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".count_files();
CREATE TRIGGER files_count_removed AFTER DELETE ON "kiln".files REFERENCING OLD TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION "kiln".count_files();

CREATE FUNCTION "kiln".count_files_of_deleted() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  removed bigint;
BEGIN
  SELECT sum(bytes) INTO removed FROM "kiln".files WHERE job_seq = OLD.seq;
  IF removed > 0 THEN
    PERFORM "kiln".keep_bytes(OLD.project_id, OLD.mode, 0, -removed);
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER jobs_count_files BEFORE DELETE ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".count_files_of_deleted();

-- Adds up what is kept, while nobody else writes: for the rows that were there before the triggers.
CREATE FUNCTION "kiln".recount_kept_bytes() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM "kiln".kept_bytes;
  INSERT INTO "kiln".kept_bytes (project_id, mode, slot, uploads, files)
  SELECT project_id, mode, 0, sum(uploads), sum(files) FROM (
    SELECT project_id, mode, ${bytesOf("uploads")} AS uploads, 0 AS files FROM "kiln".uploads
    UNION ALL
    SELECT jobs.project_id, jobs.mode, 0, files.bytes FROM "kiln".files JOIN "kiln".jobs ON jobs.seq = files.job_seq
  ) AS kept GROUP BY project_id, mode;
END $$;
-- The triggers have locked the tables, so nothing is counted twice.
SELECT "kiln".recount_kept_bytes();
`

/** An upload that cannot be used is erased with the failure of its job. */
const faultyUploads = `
CREATE FUNCTION "kiln".erase_faulty_upload() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  faulty text;
BEGIN
  UPDATE "kiln".uploads SET erased = true, blob_key = NULL, bytes = NULL, sha256 = NULL, sweep_at = NULL
  FROM "kiln".jobs WHERE jobs.seq = NEW.job_seq AND uploads.id = jobs.upload_id AND NOT uploads.erased
  RETURNING uploads.id INTO faulty;
  IF faulty IS NOT NULL THEN
    INSERT INTO "kiln".purges (blob_prefix, recorded_at) VALUES ('uploads/' || substr(faulty, 5), NEW.finished_at)
    ON CONFLICT (blob_prefix) DO NOTHING;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER results_erase_faulty_upload AFTER INSERT ON "kiln".results
FOR EACH ROW WHEN (NEW.error_code IN (${uploadFaults.map((code) => `'${code}'`).join(", ")}))
EXECUTE FUNCTION "kiln".erase_faulty_upload();
`

export const limits: Migration = { name: "0003Limits", sql: callersReservations + keptBytes + faultyUploads }
