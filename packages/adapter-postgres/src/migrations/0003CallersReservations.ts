import type { Migration } from "@kiln/core/ports"

/**
 * A reservation for a job in a transaction of a caller's is written and committed before that transaction ends, so that no lock on a
 * cap is held until then. It counts until the transaction has ended without the job.
 */
export const callersReservations: Migration = {
  name: "0003CallersReservations",
  sql: `
-- The caller's transaction; NULL for a job that was created in a transaction of kiln's, and once the job was seen.
ALTER TABLE "kiln".spending ADD COLUMN caller_xid xid8;
CREATE INDEX spending_of_callers ON "kiln".spending (owner) WHERE caller_xid IS NOT NULL;
`,
}
