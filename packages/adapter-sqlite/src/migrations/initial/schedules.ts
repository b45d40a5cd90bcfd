/** Jobs that are submitted again and again. */
export const scheduleTables = `
CREATE TABLE kiln_schedules (
  name     TEXT    NOT NULL PRIMARY KEY,
  version  INTEGER NOT NULL CHECK (version > 0),
  -- NULL while the schedule is paused.
  next_at  INTEGER,
  document TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX kiln_schedules_next ON kiln_schedules (next_at, name) WHERE next_at IS NOT NULL;
`
