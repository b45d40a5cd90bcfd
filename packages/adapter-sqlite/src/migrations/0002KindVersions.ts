import type { Migration } from "@kiln/core/ports"

/**
 * Jobs know the version of their kind; what was stored before is of the first. And the jobs in hand, a few of very many,
 * can be counted without a look at the others, as limits of concurrency demand.
 */
const sql = `
ALTER TABLE kiln_jobs ADD COLUMN kind_version INTEGER NOT NULL DEFAULT 1 CHECK (kind_version >= 1);

CREATE TRIGGER kiln_jobs_kind_version_is_final BEFORE UPDATE OF kind_version ON kiln_jobs
BEGIN SELECT RAISE(ABORT, 'what a job was asked for never changes'); END;

CREATE INDEX kiln_jobs_held ON kiln_jobs (held, mode, kind, project_id, claimable_at) WHERE held = 1;
`

export const kindVersions: Migration = { name: "0002KindVersions", sql }
