import type { Migration } from "@kiln/core/ports"

/**
 * The retention rules that processes publish for each kind, and the times at which failed purges are tried again. A
 * process of the previous version records purges that are due immediately, and none that has failed.
 */
export const retention: Migration = {
  name: "0004Retention",
  sql: `
CREATE TABLE kiln_retention_rules (
  -- Empty for records of uploads that no job used.
  kind       TEXT    NOT NULL,
  publisher  TEXT    NOT NULL,
  program    TEXT    NOT NULL,
  -- NULL: indefinitely.
  data_ms    INTEGER CHECK (data_ms >= 0),
  jobs_ms    INTEGER CHECK (jobs_ms >= 0),
  live_until INTEGER NOT NULL,
  PRIMARY KEY (kind, publisher)
) STRICT, WITHOUT ROWID;

ALTER TABLE kiln_purges ADD COLUMN failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0);
ALTER TABLE kiln_purges ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX kiln_purges_due ON kiln_purges (failures, due_at);
`,
}
