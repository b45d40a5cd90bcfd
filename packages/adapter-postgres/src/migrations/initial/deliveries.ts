/** Finished jobs that `onFinished` has not confirmed yet. Triggers of results write the rows, and remove them with their jobs. */
export const deliveryTables = `
CREATE TABLE "kiln".deliveries (
  job_id   text COLLATE "C" PRIMARY KEY,
  kind     text   NOT NULL,
  due_at   bigint NOT NULL,
  attempts bigint NOT NULL CHECK (attempts >= 0),
  token    bigint NOT NULL CHECK (token >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX deliveries_due ON "kiln".deliveries (due_at, job_id);
CREATE TRIGGER deliveries_token_grows BEFORE UPDATE ON "kiln".deliveries
FOR EACH ROW WHEN (NEW.token <= OLD.token)
EXECUTE FUNCTION "kiln".refuse('the token of a delivery must increase whenever a claim begins or ends');
`
