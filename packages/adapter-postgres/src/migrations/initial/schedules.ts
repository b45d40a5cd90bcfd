/** Jobs that are submitted again and again. */
export const scheduleTables = `
CREATE TABLE "kiln".schedules (
  name     text COLLATE "C" PRIMARY KEY,
  version  bigint NOT NULL CHECK (version > 0),
  -- NULL while the schedule is paused.
  next_at  bigint,
  document text   NOT NULL
);
CREATE INDEX schedules_next ON "kiln".schedules (next_at, name) WHERE next_at IS NOT NULL;
`
