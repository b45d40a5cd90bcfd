/**
 * Upper bounds of what counts against a cap: the sums when entries were last added up, and all reservations since. Ends of jobs only lower
 * what counts, because a charge is not above its reservation. A charge that is, or had none, is marked: then entries are added up again.
 * Triggers keep all of this, so reservations by processes of the previous version count too. Whoever reserves holds the lock of the cap; ends of
 * jobs lock nothing.
 */
export const spendBounds = `
-- NULL where they are not known.
ALTER TABLE "kiln".spend_caps ADD COLUMN day_bound text, ADD COLUMN month_bound text;
-- Whether the amount is in the bounds, or was when it was reserved.
ALTER TABLE "kiln".spending ADD COLUMN in_bound boolean NOT NULL DEFAULT false;

CREATE INDEX spending_out_of_bounds ON "kiln".spending (owner) WHERE NOT in_bound AND charged_at IS NOT NULL;

CREATE FUNCTION "kiln".raise_spend_bound() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  UPDATE "kiln".spend_caps SET day_bound = (day_bound::numeric + NEW.amount::numeric)::text,
    month_bound = (month_bound::numeric + NEW.amount::numeric)::text
  WHERE owner = NEW.owner;
  RETURN NULL;
END $$;
CREATE TRIGGER spending_raises_bound AFTER INSERT ON "kiln".spending
FOR EACH ROW WHEN (NEW.charged_at IS NULL AND NOT NEW.in_bound) EXECUTE FUNCTION "kiln".raise_spend_bound();

CREATE FUNCTION "kiln".forget_spend_bounds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.day_bound := NULL;
  NEW.month_bound := NULL;
  RETURN NEW;
END $$;
CREATE TRIGGER spend_caps_forget_bounds BEFORE UPDATE OF currency, day, month ON "kiln".spend_caps
FOR EACH ROW EXECUTE FUNCTION "kiln".forget_spend_bounds();

-- As before, and a charge that was reserved for is in the bounds. One of a job that was accepted before there was a cap is not.
CREATE OR REPLACE FUNCTION "kiln".count_against_caps() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  covered text[];
BEGIN
  WITH freed AS (DELETE FROM "kiln".spending WHERE entry = NEW.job_id RETURNING owner, currency, amount)
  SELECT array_agg(owner) FILTER (WHERE currency = NEW.currency AND amount::numeric >= NEW.amount::numeric) INTO covered FROM freed;
  INSERT INTO "kiln".spending (owner, entry, currency, amount, charged_at, in_bound)
  SELECT owner, NEW.job_id, NEW.currency, NEW.amount, NEW.charged_at, owner = ANY (coalesce(covered, '{}'))
  FROM "kiln".spend_caps WHERE owner IN (NEW.project_id, NEW.key_id);
  RETURN NULL;
END $$;
`
