import type { Migration } from "@kiln/core/ports"

const hasCap = (row: "NEW" | "OLD") => `EXISTS (SELECT 1 FROM kiln_spend_caps WHERE owner = ${row}.owner)`

const added = "ON CONFLICT (owner, currency, amount) DO UPDATE SET count = count + excluded.count"

const change = (row: "NEW" | "OLD", count: 1 | -1) =>
  `INSERT INTO kiln_reserved (owner, currency, amount, count) VALUES (${row}.owner, ${row}.currency, ${row}.amount, ${count}) ${added};`

const countAll = (condition: string) => `INSERT INTO kiln_reserved (owner, currency, amount, count)
  SELECT owner, currency, amount, count(*) FROM kiln_spending WHERE charged_at IS NULL AND ${condition} GROUP BY owner, currency, amount`

/** What unfinished jobs reserve under a cap is a sum, so that a new job under it is checked as fast among a million as among ten. */
export const reserved: Migration = {
  name: "0014Reserved",
  sql: `
-- What the unfinished jobs of an owner with a cap reserve: the sum of each amount times its count. When an owner has many rows, their
-- sum takes their place. Written by triggers, also for a process of the previous version.
CREATE TABLE kiln_reserved (
  -- A project or a key.
  owner    TEXT    NOT NULL,
  currency TEXT    NOT NULL,
  amount   TEXT    NOT NULL,
  -- Negative for amounts that are free again, but are in the sum of another row.
  count    INTEGER NOT NULL,
  PRIMARY KEY (owner, currency, amount)
) STRICT, WITHOUT ROWID;

CREATE INDEX kiln_spending_charged ON kiln_spending (owner, charged_at) WHERE charged_at IS NOT NULL;

${countAll("owner IN (SELECT owner FROM kiln_spend_caps)")};

CREATE TRIGGER kiln_spending_reserves AFTER INSERT ON kiln_spending
WHEN NEW.charged_at IS NULL AND ${hasCap("NEW")}
BEGIN ${change("NEW", 1)} END;

CREATE TRIGGER kiln_spending_is_free AFTER DELETE ON kiln_spending
WHEN OLD.charged_at IS NULL AND ${hasCap("OLD")}
BEGIN ${change("OLD", -1)} END;

CREATE TRIGGER kiln_spending_is_charged AFTER UPDATE ON kiln_spending
WHEN OLD.charged_at IS NULL AND ${hasCap("OLD")}
BEGIN ${change("OLD", -1)} END;

-- Jobs that were accepted under an earlier cap of the owner still reserve.
CREATE TRIGGER kiln_spend_caps_count AFTER INSERT ON kiln_spend_caps
BEGIN ${countAll("owner = NEW.owner")}; END;

CREATE TRIGGER kiln_spend_caps_forget AFTER DELETE ON kiln_spend_caps
BEGIN DELETE FROM kiln_reserved WHERE owner = OLD.owner; END;
`,
}
