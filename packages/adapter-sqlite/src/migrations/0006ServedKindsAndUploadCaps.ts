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

/** What of a project's uploads waits for jobs, counted without a look at those that were used or have expired. */
const uploadCaps = `
CREATE INDEX kiln_uploads_stored ON kiln_uploads (project_id, usable_until, bytes)
  WHERE blob_key IS NOT NULL AND erased = 0 AND sweep_at IS NOT NULL;
CREATE INDEX kiln_uploads_announced ON kiln_uploads (project_id, expires_at) WHERE blob_key IS NULL AND erased = 0;
CREATE INDEX kiln_uploads_arriving ON kiln_uploads (project_id, claimed_until) WHERE claimed_until IS NOT NULL;
`

export const servedKindsAndUploadCaps: Migration = {
  name: "0006ServedKindsAndUploadCaps",
  sql: servedKinds + uploadCaps,
}
