/** Projects, keys and secrets. Of a key's secret, only the hash is stored. */
export const accessTables = `
CREATE TABLE kiln_projects (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  name        TEXT    NOT NULL UNIQUE,
  created_at  INTEGER NOT NULL,
  -- While it is set, the project's keys count as unknown.
  disabled_at INTEGER
) STRICT;

CREATE TABLE kiln_api_keys (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  project_id   TEXT    NOT NULL REFERENCES kiln_projects (id),
  mode         TEXT    NOT NULL CHECK (mode IN ('test', 'live')),
  scopes       TEXT    NOT NULL,
  name         TEXT,
  -- Rate limits that replace the installation's.
  limits       TEXT,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER
) STRICT;

CREATE TRIGGER kiln_api_keys_stay_revoked BEFORE UPDATE OF revoked_at ON kiln_api_keys
WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at
BEGIN SELECT RAISE(ABORT, 'a revoked key cannot become active again'); END;

CREATE TABLE kiln_key_secrets (
  secret_hash TEXT    NOT NULL PRIMARY KEY,
  key_id      TEXT    NOT NULL REFERENCES kiln_api_keys (id),
  created_at  INTEGER NOT NULL,
  -- When its overlap ends; NULL for the current secret.
  valid_until INTEGER
) STRICT;

-- Token buckets of keys that processes share. A bucket without a row is full.
CREATE TABLE kiln_rate_buckets (
  bucket  TEXT    NOT NULL PRIMARY KEY,
  state   TEXT    NOT NULL,
  -- When the row may go.
  full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_rate_buckets_full ON kiln_rate_buckets (full_at);

CREATE TABLE kiln_secrets (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;
`

/** The operator's switches and prices, and what workers publish. A switch without a row is off. */
export const boardTables = `
CREATE TABLE kiln_switches (
  name    TEXT    NOT NULL PRIMARY KEY,
  enabled INTEGER NOT NULL CHECK (enabled IN (0, 1))
) STRICT;

CREATE TABLE kiln_prices (
  id           INTEGER PRIMARY KEY,
  name         TEXT    NOT NULL,
  version      INTEGER NOT NULL CHECK (version >= 1),
  currency     TEXT    NOT NULL,
  unit_amounts TEXT    NOT NULL,
  active       INTEGER NOT NULL CHECK (active IN (0, 1)),
  created_at   INTEGER NOT NULL,
  UNIQUE (name, version)
) STRICT;
CREATE UNIQUE INDEX kiln_prices_active ON kiln_prices (name) WHERE active = 1;

-- Jobs refer to the version that was in force when they were accepted.
CREATE TRIGGER kiln_prices_are_final BEFORE UPDATE OF id, name, version, currency, unit_amounts, created_at ON kiln_prices
BEGIN SELECT RAISE(ABORT, 'a version of a price cannot be changed'); END;

CREATE TABLE kiln_workers (
  worker_id  TEXT    NOT NULL PRIMARY KEY,
  live_kinds TEXT    NOT NULL,
  live_until INTEGER NOT NULL,
  providers  TEXT    NOT NULL
) STRICT;

-- When each kind was last served live.
CREATE TABLE kiln_served_kinds (
  kind      TEXT    NOT NULL PRIMARY KEY,
  served_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many jobs of a project may run at the same time; 0 is no limit. A project without a row has the limit in the settings.
CREATE TABLE kiln_project_limits (
  project_id  TEXT    NOT NULL PRIMARY KEY,
  concurrency INTEGER NOT NULL CHECK (concurrency >= 0)
) STRICT, WITHOUT ROWID;

-- Kinds whose jobs are not claimed.
CREATE TABLE kiln_paused_kinds (
  kind TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
`

/**
 * Spend caps, and what counts against them. A finished job's reservation ends in the statement that finishes it, whatever code runs
 * it, so none is forgotten or ended twice.
 */
export const spendingTables = `
CREATE TABLE kiln_spend_caps (
  -- A project or a key.
  owner    TEXT NOT NULL PRIMARY KEY,
  currency TEXT NOT NULL,
  day      TEXT,
  month    TEXT,
  CHECK (day IS NOT NULL OR month IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TABLE kiln_spending (
  owner      TEXT NOT NULL,
  -- A job, or a day whose charges were added up.
  entry      TEXT NOT NULL,
  currency   TEXT NOT NULL,
  amount     TEXT NOT NULL,
  -- NULL while the job is unfinished: the amount is what it may cost at most.
  charged_at INTEGER,
  PRIMARY KEY (owner, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_spending_by_entry ON kiln_spending (entry);

CREATE TRIGGER kiln_jobs_finished_frees_reservation AFTER UPDATE OF finished_at ON kiln_jobs
WHEN OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND NEW.price_id IS NOT NULL
BEGIN DELETE FROM kiln_spending WHERE entry = NEW.id AND charged_at IS NULL; END;

CREATE TRIGGER kiln_charges_count_against_caps AFTER INSERT ON kiln_charges
WHEN EXISTS (SELECT 1 FROM kiln_spend_caps WHERE owner = NEW.project_id OR owner = NEW.key_id)
BEGIN
  INSERT INTO kiln_spending (owner, entry, currency, amount, charged_at)
  SELECT owner, NEW.job_id, NEW.currency, NEW.amount, NEW.charged_at
  FROM kiln_spend_caps WHERE owner = NEW.project_id OR owner = NEW.key_id
  ON CONFLICT (owner, entry) DO UPDATE SET
    currency = excluded.currency, amount = excluded.amount, charged_at = excluded.charged_at;
END;
`
