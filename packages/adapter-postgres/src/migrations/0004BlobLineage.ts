import type { Migration } from "@kiln/core/ports"

/** What the store remembers about its blob store: one row, written with its version as a condition. */
export const blobLineage: Migration = {
  name: "0004BlobLineage",
  sql: `
CREATE TABLE "kiln".blob_lineage (
  id       smallint PRIMARY KEY CHECK (id = 1),
  version  bigint NOT NULL CHECK (version > 0),
  document text   NOT NULL
);
`,
}
