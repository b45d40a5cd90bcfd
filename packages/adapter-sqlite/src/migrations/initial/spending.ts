/**
 * Spend caps, and what counts against them. A finished job's reservation ends in the statement that finishes it, whatever code runs
 * it, so none is forgotten or ended twice.
 */
export const spendingTables = `
CREATE TABLE kiln_spend_caps (
  -- A project or a key.
  owner    TEXT NOT NULL PRIMARY KEY,
  currency TEXT NOT NULL,
  day      TEXT,
  month    TEXT,
  CHECK (day IS NOT NULL OR month IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TABLE kiln_spending (
  owner      TEXT NOT NULL,
  -- A job, or a day whose charges were added up.
  entry      TEXT NOT NULL,
  currency   TEXT NOT NULL,
  amount     TEXT NOT NULL,
  -- NULL while the job is unfinished: the amount is what it may cost at most.
  charged_at INTEGER,
  PRIMARY KEY (owner, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_spending_by_entry ON kiln_spending (entry);

CREATE TRIGGER kiln_jobs_finished_frees_reservation AFTER UPDATE OF finished_at ON kiln_jobs
WHEN OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND NEW.price_id IS NOT NULL
BEGIN DELETE FROM kiln_spending WHERE entry = NEW.id AND charged_at IS NULL; END;

CREATE TRIGGER kiln_charges_count_against_caps AFTER INSERT ON kiln_charges
WHEN EXISTS (SELECT 1 FROM kiln_spend_caps WHERE owner = NEW.project_id OR owner = NEW.key_id)
BEGIN
  INSERT INTO kiln_spending (owner, entry, currency, amount, charged_at)
  SELECT owner, NEW.job_id, NEW.currency, NEW.amount, NEW.charged_at
  FROM kiln_spend_caps WHERE owner = NEW.project_id OR owner = NEW.key_id
  ON CONFLICT (owner, entry) DO UPDATE SET
    currency = excluded.currency, amount = excluded.amount, charged_at = excluded.charged_at;
END;
`
