import type { Migration } from "@kiln/core/ports"

/** What the store remembers about its blob store: one row, written with its version as a condition. */
export const blobLineage: Migration = {
  name: "0005BlobLineage",
  sql: `
CREATE TABLE kiln_blob_lineage (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  version INTEGER NOT NULL CHECK (version > 0),
  document TEXT NOT NULL
) STRICT;
`,
}
