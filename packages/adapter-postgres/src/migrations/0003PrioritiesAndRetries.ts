import type { Migration } from "@kiln/core/ports"
import { laneFunctions } from "./priorities/laneFunctions.ts"
import { originTriggers } from "./priorities/originTriggers.ts"

/**
 * Both tables at once and before anything else: whoever writes them meanwhile waits for the end of this, and does not hold
 * half of what the other half of this needs. Claims lock the queue first.
 */
const lock = `
LOCK TABLE "kiln".queue, "kiln".jobs IN ACCESS EXCLUSIVE MODE;
`

/**
 * Priorities are kept as ranks (\`priorityRank\`). A process of the version before writes rows of the middle one, and knows
 * nothing of fields that stay.
 */
const columns = `
ALTER TABLE "kiln".jobs
  ADD COLUMN priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1 AND 2),
  ADD COLUMN kept     text     NOT NULL DEFAULT '{}';
ALTER TABLE "kiln".queue
  ADD COLUMN priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1 AND 2);
`

/**
 * The order of a claim, rank by rank. The index that it had before goes: every claim, heartbeat and end of one would write
 * both. A process of the version before finds its lanes' jobs in the new one as well; it reads and sorts a lane for that.
 *
 * The other one is for operators' lists: it gets an entry when a job is accepted and another when it ends, both at the
 * right-hand edge of their part. By an expression, so that no plan takes it that only knows the status.
 */
const indexes = `
CREATE INDEX queue_by_turn ON "kiln".queue (lane_id, priority, claimable_at, id);
DROP INDEX "kiln".queue_ready;
CREATE INDEX jobs_by_status ON "kiln".jobs (coalesce(status, 'unfinished'), created_at, id);
`

/** A kind without a row is not paused. */
const pausedKinds = `
CREATE TABLE "kiln".paused_kinds (kind text COLLATE "C" PRIMARY KEY);
`

export const prioritiesAndRetries: Migration = {
  name: "0003PrioritiesAndRetries",
  sql: lock + columns + indexes + pausedKinds + originTriggers + laneFunctions,
}
