import type { Migration } from "@kiln/core/ports"

/**
 * The retention rules that processes publish for each kind, and the times at which failed purges are tried again. A
 * process of the previous version records purges that are due immediately, and none that has failed.
 */
export const retention: Migration = {
  name: "0004Retention",
  sql: `
CREATE TABLE "kiln".retention_rules (
  -- Empty for records of uploads that no job used.
  kind       text COLLATE "C" NOT NULL,
  publisher  text COLLATE "C" NOT NULL,
  program    text   NOT NULL,
  -- NULL: indefinitely.
  data_ms    bigint CHECK (data_ms >= 0),
  jobs_ms    bigint CHECK (jobs_ms >= 0),
  live_until bigint NOT NULL,
  PRIMARY KEY (kind, publisher)
);

ALTER TABLE "kiln".purges ADD COLUMN failures bigint NOT NULL DEFAULT 0 CHECK (failures >= 0);
ALTER TABLE "kiln".purges ADD COLUMN due_at bigint NOT NULL DEFAULT 0;
CREATE INDEX purges_due ON "kiln".purges (failures, due_at, id);
`,
}
