import type { Migration } from "@kiln/core/ports"

/**
 * Workers publish how their providers stand: what a process of the version before publishes says nothing of any. And the ledger
 * can be read by time, an entry after the other.
 */
const sql = `
CREATE INDEX kiln_charges_by_time ON kiln_charges (charged_at, job_id);

ALTER TABLE kiln_workers ADD COLUMN providers TEXT NOT NULL DEFAULT '[]';
`

export const ledgerAndStandings: Migration = { name: "0003LedgerAndStandings", sql }
