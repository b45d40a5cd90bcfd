/** The operator's switches and prices, and what the workers publish. No row of a switch means off. */
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
BEGIN SELECT RAISE(ABORT, 'a version of a price never changes'); END;

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

-- Kinds none of whose jobs is claimed.
CREATE TABLE kiln_paused_kinds (
  kind TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
`
