/** Finished jobs that `onFinished` has not confirmed yet. The statement that ends a marked job writes the row (`kiln_jobs_finishes`), whatever code runs it. */
export const deliveryTables = `
CREATE TABLE kiln_deliveries (
  job_id   TEXT    NOT NULL PRIMARY KEY,
  kind     TEXT    NOT NULL,
  due_at   INTEGER NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  token    INTEGER NOT NULL CHECK (token >= 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_deliveries_due ON kiln_deliveries (kind, due_at);

-- Not a foreign key, which every insertion of a job would look up.
CREATE TRIGGER kiln_jobs_deleted_takes_delivery AFTER DELETE ON kiln_jobs
BEGIN DELETE FROM kiln_deliveries WHERE job_id = OLD.id; END;

CREATE TRIGGER kiln_deliveries_token_grows BEFORE UPDATE ON kiln_deliveries
WHEN NEW.token <= OLD.token
BEGIN SELECT RAISE(ABORT, 'the token of a delivery must increase whenever a claim begins or ends'); END;
`
