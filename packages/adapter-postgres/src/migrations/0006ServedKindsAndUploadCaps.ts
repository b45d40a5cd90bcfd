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

export const servedKindsAndUploadCaps: Migration = { name: "0006ServedKindsAndUploadCaps", sql: servedKinds }
