/** Projects, keys and secrets. A key's secret is stored as its hash only. */
export const accessTables = `
CREATE TABLE kiln_projects (
  seq        INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  name       TEXT    NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE kiln_api_keys (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  project_id   TEXT    NOT NULL REFERENCES kiln_projects (id),
  mode         TEXT    NOT NULL CHECK (mode IN ('test', 'live')),
  scopes       TEXT    NOT NULL,
  name         TEXT,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER
) STRICT;

CREATE TRIGGER kiln_api_keys_stay_revoked BEFORE UPDATE OF revoked_at ON kiln_api_keys
WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at
BEGIN SELECT RAISE(ABORT, 'a revoked key stays revoked'); END;

CREATE TABLE kiln_key_secrets (
  secret_hash TEXT    NOT NULL PRIMARY KEY,
  key_id      TEXT    NOT NULL REFERENCES kiln_api_keys (id),
  created_at  INTEGER NOT NULL,
  -- When its overlap ends; NULL for the present secret.
  valid_until INTEGER
) STRICT;

CREATE TABLE kiln_secrets (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;
`
