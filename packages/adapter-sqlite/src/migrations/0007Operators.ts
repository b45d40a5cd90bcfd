import type { Migration } from "@kiln/core/ports"

/** Tokens of the operator's page, and figures by minute for its charts. */
export const operators: Migration = {
  name: "0007Operators",
  sql: `
CREATE TABLE kiln_operator_tokens (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  name        TEXT    NOT NULL,
  -- A JSON list.
  roles       TEXT    NOT NULL,
  -- SHA-256 of the secret, which is not stored.
  secret_hash TEXT    NOT NULL UNIQUE,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER,
  revoked_at  INTEGER
) STRICT;

CREATE TABLE kiln_minutes (
  -- The start of the minute.
  at      INTEGER NOT NULL PRIMARY KEY,
  figures TEXT    NOT NULL
) STRICT;
`,
}
