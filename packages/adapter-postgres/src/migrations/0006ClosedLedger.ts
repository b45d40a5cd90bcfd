import type { Migration } from "@kiln/core/ports"

/**
 * How far the ledger has been read. A charge gets the time of the close at least; \`complete_until\` follows once every
 * completion that may not have seen the close is committed or gone.
 */
const table = `
CREATE TABLE "kiln".closed_ledger (
  id             smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  closed_until   bigint NOT NULL DEFAULT 0,
  complete_until bigint NOT NULL DEFAULT 0 CHECK (complete_until <= closed_until)
);
INSERT INTO "kiln".closed_ledger (id) VALUES (1);

CREATE FUNCTION "kiln".ledger_stays_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.closed_until < OLD.closed_until OR NEW.complete_until < OLD.complete_until THEN
    RAISE EXCEPTION 'the ledger is not opened again';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER closed_ledger_stays_closed BEFORE UPDATE ON "kiln".closed_ledger
FOR EACH ROW EXECUTE FUNCTION "kiln".ledger_stays_closed();
`

/**
 * A completion first shows that it is under way, by a shared lock that names the earliest second its charge can have, and then
 * reads how far the ledger is closed, in a statement of its own and so on a new snapshot. A reader closes the ledger first and
 * looks at the locks afterwards (\`listCharges\`). So either the completion sees the close, or the reader sees the completion.
 * The lock is released after the commit is visible. Nobody waits for it, and no process but the server takes part, so
 * completions of the version before are covered as well.
 */
const charges = `
CREATE OR REPLACE FUNCTION "kiln".write_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(
    ('"kiln".closed_ledger'::regclass::oid::bigint - 2147483648)::int, (NEW.finished_at / 1000 - 2147483648)::int);
  INSERT INTO "kiln".charges (job_id, project_id, key_id, kind, currency, amount, line_items, charged_at)
  SELECT NEW.id, NEW.project_id, NEW.key_id, NEW.kind,
    NEW.charge::json ->> 'currency', NEW.charge::json ->> 'amount', NEW.charge::json -> 'lineItems',
    greatest(NEW.finished_at, closed_until)
  FROM "kiln".closed_ledger;
  RETURN NULL;
END $$;
`

export const closedLedger: Migration = { name: "0006ClosedLedger", sql: table + charges }
