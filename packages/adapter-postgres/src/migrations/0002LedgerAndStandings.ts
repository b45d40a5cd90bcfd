import type { Migration } from "@kiln/core/ports"

/**
 * Workers publish how their providers stand: what a process of the version before publishes says nothing of any. And the ledger
 * can be read by time, an entry after the other. The index first: it may take its time, and every acceptance of a job reads the workers, which then are locked for
 * a moment only.
 */
const sql = `
CREATE INDEX charges_by_time ON "kiln".charges (charged_at, job_id);

ALTER TABLE "kiln".workers ADD COLUMN providers text NOT NULL DEFAULT '[]';
`

export const ledgerAndStandings: Migration = { name: "0002LedgerAndStandings", sql }
