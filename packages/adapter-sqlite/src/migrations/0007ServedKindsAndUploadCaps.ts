import type { Migration } from "@kiln/core/ports"

/**
 * When each kind was last served live. It begins with what the workers of the version before publish while this is applied:
 * an entry was written two minutes before it ends.
 */
const servedKinds = `
CREATE TABLE kiln_served_kinds (
  kind      TEXT    NOT NULL PRIMARY KEY,
  served_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO kiln_served_kinds (kind, served_at)
SELECT value, max(live_until) - 120000 FROM kiln_workers, json_each(live_kinds) GROUP BY value;
`

export const servedKindsAndUploadCaps: Migration = { name: "0007ServedKindsAndUploadCaps", sql: servedKinds }
