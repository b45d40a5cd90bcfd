/** Administrative changes. Entries are only added, and removed by age. */
export const auditTable = `
CREATE TABLE kiln_audit (
  number  INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  actor   TEXT    NOT NULL,
  origin  TEXT    NOT NULL,
  action  TEXT    NOT NULL,
  subject TEXT,
  details TEXT    NOT NULL
) STRICT;
CREATE INDEX kiln_audit_times ON kiln_audit (at);

CREATE TRIGGER kiln_audit_is_final BEFORE UPDATE ON kiln_audit
BEGIN SELECT RAISE(ABORT, 'an audit entry cannot be changed'); END;
`
