import type { Migration } from "@kiln/core/ports"

/**
 * How far the ledger has been read as complete: a charge that is written later gets this time at least, also from a process
 * of the version before, because a trigger writes the ledger.
 */
const closedLedger = `
CREATE TABLE kiln_closed_ledger (
  id           INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  closed_until INTEGER NOT NULL
) STRICT;
INSERT INTO kiln_closed_ledger (id, closed_until) VALUES (1, 0);

CREATE TRIGGER kiln_closed_ledger_stays_closed BEFORE UPDATE ON kiln_closed_ledger
WHEN NEW.closed_until < OLD.closed_until
BEGIN SELECT RAISE(ABORT, 'the ledger is not opened again'); END;

CREATE TRIGGER kiln_charges_after_the_close BEFORE INSERT ON kiln_charges
WHEN NEW.charged_at < (SELECT closed_until FROM kiln_closed_ledger)
BEGIN SELECT RAISE(ABORT, 'the ledger is closed for this time'); END;

DROP TRIGGER kiln_jobs_charge;
CREATE TRIGGER kiln_jobs_charge AFTER UPDATE OF charge ON kiln_jobs
WHEN OLD.charge IS NULL AND NEW.charge IS NOT NULL
BEGIN
  INSERT INTO kiln_charges (job_id, project_id, key_id, kind, currency, amount, line_items, charged_at)
  VALUES (NEW.id, NEW.project_id, NEW.key_id, NEW.kind,
    NEW.charge ->> '$.currency', NEW.charge ->> '$.amount', NEW.charge -> '$.lineItems',
    max(NEW.finished_at, (SELECT closed_until FROM kiln_closed_ledger)));
END;
`

/** The latest store time of a committed write, for the processes that share the file and for those that start later. */
const storeTime = `
CREATE TABLE kiln_store_time (
  id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  latest INTEGER NOT NULL
) STRICT;
INSERT INTO kiln_store_time (id, latest) VALUES (1, 0);

CREATE TRIGGER kiln_store_time_never_goes_back BEFORE UPDATE ON kiln_store_time
WHEN NEW.latest < OLD.latest
BEGIN SELECT RAISE(ABORT, 'store time never goes back'); END;
`

export const timeKeeping: Migration = { name: "0007TimeKeeping", sql: closedLedger + storeTime }
