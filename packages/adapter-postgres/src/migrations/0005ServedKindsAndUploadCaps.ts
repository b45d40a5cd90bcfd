import type { Migration } from "@kiln/core/ports"

/**
 * When each kind was last served live. It begins with what the workers of the version before publish while this is applied:
 * an entry was written two minutes before it ends.
 */
const servedKinds = `
CREATE TABLE "kiln".served_kinds (
  kind      text COLLATE "C" PRIMARY KEY,
  served_at bigint NOT NULL
);

INSERT INTO "kiln".served_kinds (kind, served_at)
SELECT kind, max(live_until) - 120000 FROM "kiln".workers, json_array_elements_text(live_kinds::json) AS kind GROUP BY kind;
`

/**
 * What of a project's uploads waits for jobs, counted without a look at those that were used or have expired. Their
 * conditions are expressions, so that no plan of a statement about one upload reads them whole.
 */
const uploadCaps = `
CREATE INDEX uploads_stored ON "kiln".uploads (project_id, usable_until, bytes)
  WHERE coalesce(blob_key, '') <> '' AND NOT erased AND sweep_at IS NOT NULL;
CREATE INDEX uploads_announced ON "kiln".uploads (project_id, expires_at) WHERE coalesce(blob_key, '') = '' AND NOT erased;
CREATE INDEX uploads_arriving ON "kiln".uploads (project_id, claimed_until) WHERE coalesce(claimed_until, 0) > 0;
`

export const servedKindsAndUploadCaps: Migration = {
  name: "0005ServedKindsAndUploadCaps",
  sql: servedKinds + uploadCaps,
}
