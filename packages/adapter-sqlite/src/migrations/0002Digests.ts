import type { Migration } from "@kiln/core/ports"

/** Lets each applied migration keep the digest of its text, so that a database of another text is told from one of this text. */
export const digests: Migration = {
  name: "0002Digests",
  sql: `ALTER TABLE kiln_migrations ADD COLUMN digest TEXT;
`,
}
