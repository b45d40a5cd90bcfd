/**
 * Spend caps, and what counts against them. The end of a job ends its reservation in the same statement, whatever code runs it, so
 * none is forgotten or ended twice.
 */
export const spendingTables = `
CREATE TABLE "kiln".spend_caps (
  -- A project or a key.
  owner    text COLLATE "C" PRIMARY KEY,
  currency text   NOT NULL,
  day      text,
  month    text,
  -- Raised with every reservation, so that a transaction with an older snapshot fails instead of reserving by old sums.
  turns    bigint NOT NULL DEFAULT 0,
  CHECK (day IS NOT NULL OR month IS NOT NULL)
);

CREATE TABLE "kiln".spending (
  owner      text COLLATE "C" NOT NULL,
  -- A job, or a day whose charges were added up.
  entry      text COLLATE "C" NOT NULL,
  currency   text NOT NULL,
  amount     text NOT NULL,
  -- NULL while the job is unfinished: the amount is what it may cost at most.
  charged_at bigint,
  PRIMARY KEY (owner, entry)
);
CREATE INDEX spending_by_entry ON "kiln".spending (entry);

-- Keeps new charges away until the transaction ends. With the owner's rights: the service has no right to change charges.
CREATE FUNCTION "kiln".lock_charges() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  LOCK TABLE "kiln".charges IN SHARE ROW EXCLUSIVE MODE;
END $$;

CREATE FUNCTION "kiln".free_reservation() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".spending WHERE entry = NEW.job_id;
  RETURN NULL;
END $$;
CREATE TRIGGER results_free_reservation AFTER INSERT ON "kiln".results
FOR EACH ROW WHEN (NEW.mode = 'live' AND NEW.charge IS NULL) EXECUTE FUNCTION "kiln".free_reservation();

CREATE FUNCTION "kiln".count_against_caps() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM "kiln".spending WHERE entry = NEW.job_id;
  INSERT INTO "kiln".spending (owner, entry, currency, amount, charged_at)
  SELECT owner, NEW.job_id, NEW.currency, NEW.amount, NEW.charged_at
  FROM "kiln".spend_caps WHERE owner IN (NEW.project_id, NEW.key_id);
  RETURN NULL;
END $$;
CREATE TRIGGER charges_count_against_caps AFTER INSERT ON "kiln".charges
FOR EACH ROW EXECUTE FUNCTION "kiln".count_against_caps();
`
