/** jobs.upload_id tells which job consumed an upload. */
export const uploadTables = `
CREATE TABLE kiln_uploads (
  seq              INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  project_id       TEXT    NOT NULL,
  key_id           TEXT    NOT NULL,
  mode             TEXT    NOT NULL CHECK (mode IN ('sandbox', 'live')),
  format           TEXT    NOT NULL,
  declared_seconds REAL    NOT NULL,
  created_at       INTEGER NOT NULL,
  expires_at       INTEGER NOT NULL,
  usable_until     INTEGER NOT NULL,
  token            INTEGER NOT NULL CHECK (token >= 0),
  claimed_until    INTEGER,
  transfers        INTEGER NOT NULL CHECK (transfers >= 0),
  blob_key         TEXT,
  bytes            INTEGER CHECK (bytes >= 0),
  sha256           TEXT,
  erased           INTEGER NOT NULL DEFAULT 0 CHECK (erased IN (0, 1)),
  -- When a sweep next reads it: usable_until while it waits for a job, created_at once it was erased unused, NULL as soon as a job
  -- took it. This only keeps used uploads out of the index of the sweeps; jobs.upload_id is authoritative.
  sweep_at         INTEGER,
  CHECK ((blob_key IS NULL) = (bytes IS NULL) AND (blob_key IS NULL) = (sha256 IS NULL)),
  CHECK (blob_key IS NULL OR (claimed_until IS NULL AND erased = 0)),
  CHECK (erased = 0 OR claimed_until IS NULL)
) STRICT;
CREATE INDEX kiln_uploads_sweep ON kiln_uploads (erased, sweep_at) WHERE sweep_at IS NOT NULL;
-- Count a project's uploads that wait for jobs without reading those that were used or have expired.
CREATE INDEX kiln_uploads_stored ON kiln_uploads (project_id, usable_until, bytes)
  WHERE blob_key IS NOT NULL AND erased = 0 AND sweep_at IS NOT NULL;
CREATE INDEX kiln_uploads_announced ON kiln_uploads (project_id, expires_at) WHERE blob_key IS NULL AND erased = 0;
CREATE INDEX kiln_uploads_arriving ON kiln_uploads (project_id, claimed_until) WHERE claimed_until IS NOT NULL;

CREATE TRIGGER kiln_uploads_token_grows BEFORE UPDATE OF token, transfers ON kiln_uploads
WHEN NEW.token < OLD.token OR NEW.transfers < OLD.transfers
BEGIN SELECT RAISE(ABORT, 'the token of an upload must increase'); END;

CREATE TRIGGER kiln_uploads_one_file BEFORE UPDATE ON kiln_uploads
WHEN OLD.blob_key IS NOT NULL AND NEW.erased = 0 AND
  (NEW.blob_key IS NOT OLD.blob_key OR NEW.bytes IS NOT OLD.bytes OR NEW.sha256 IS NOT OLD.sha256 OR
   NEW.token <> OLD.token OR NEW.claimed_until IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'an upload can receive only one file'); END;

CREATE TRIGGER kiln_uploads_erased_once BEFORE UPDATE ON kiln_uploads
WHEN (OLD.erased = 1 AND NEW.erased = 0) OR
  (OLD.erased = 0 AND NEW.erased = 1 AND EXISTS (SELECT 1 FROM kiln_jobs WHERE upload_id = OLD.id AND finished_at IS NULL))
BEGIN SELECT RAISE(ABORT, 'an erased upload cannot be restored, and an upload cannot be erased while its job is unfinished'); END;

CREATE TRIGGER kiln_uploads_origin_is_final BEFORE UPDATE OF
  id, project_id, key_id, mode, format, declared_seconds, created_at, expires_at, usable_until ON kiln_uploads
BEGIN SELECT RAISE(ABORT, 'the announced fields of an upload cannot be changed'); END;

CREATE TRIGGER kiln_jobs_consume_uploads BEFORE INSERT ON kiln_jobs
WHEN NEW.upload_id IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM kiln_uploads WHERE id = NEW.upload_id AND blob_key IS NOT NULL AND erased = 0 AND
    project_id = NEW.project_id AND key_id = NEW.key_id AND mode = NEW.mode)
BEGIN SELECT RAISE(ABORT, 'a job can consume only an upload that has arrived and belongs to its key'); END;
`
