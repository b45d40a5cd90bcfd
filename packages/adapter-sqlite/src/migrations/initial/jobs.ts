import { keylessPrefix, ranks, rankOf } from "@kiln/core/rules"
import { bitOf } from "../../jobs/lanes.ts"

/**
 * Lanes hold the order in which projects are served. The partial indexes leave out lanes without jobs to come, so that idle
 * projects cost a claim nothing.
 */
const lanes = `
CREATE TABLE kiln_lanes (
  id           INTEGER PRIMARY KEY,
  project_id   TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  kind_version INTEGER NOT NULL CHECK (kind_version >= 1),
  mode         TEXT    NOT NULL CHECK (mode IN ('sandbox', 'live')),
  virtual_time INTEGER NOT NULL DEFAULT 0 CHECK (virtual_time >= 0),
  -- A lower bound of the smallest claimable_at in the lane; NULL if no job can become claimable.
  next_at      INTEGER,
  -- The ranks that its jobs ever had, a bit for each, beginning with normal. Claims look only for these.
  ranks        INTEGER NOT NULL DEFAULT ${bitOf(rankOf("normal"))} CHECK (ranks BETWEEN 1 AND ${ranks.reduce((bits, rank) => bits | bitOf(rank), 0)}),
  UNIQUE (project_id, kind, kind_version, mode)
) STRICT;
CREATE INDEX kiln_lanes_by_age  ON kiln_lanes (kind, kind_version, mode) WHERE next_at IS NOT NULL;
CREATE INDEX kiln_lanes_by_turn ON kiln_lanes (kind, kind_version, mode, virtual_time) WHERE next_at IS NOT NULL;
CREATE INDEX kiln_lanes_by_next ON kiln_lanes (kind, kind_version, mode, next_at) WHERE next_at IS NOT NULL;

CREATE TABLE kiln_fairness (
  id           INTEGER PRIMARY KEY CHECK (id = 1),
  -- The virtual time at which a lane was last served.
  virtual_time INTEGER NOT NULL CHECK (virtual_time >= 0)
) STRICT;
INSERT INTO kiln_fairness (id, virtual_time) VALUES (1, 0);
`

/**
 * One small row per job. A long request is in a table of its own, so that a heartbeat does not rewrite a large prompt and a corrupt
 * overflow page does not prevent the job from failing. The output is written once, with the last update.
 * The constraints repeat the invariants of the state machine, as the last defense against bugs in the code above. SQLite builds a
 * table for an IN with more than two values, whenever the CHECK runs, so these are written with OR.
 */
const jobs = `
CREATE TABLE kiln_jobs (
  seq              INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  lane_id          INTEGER NOT NULL REFERENCES kiln_lanes (id),
  project_id       TEXT    NOT NULL,
  key_id           TEXT    NOT NULL,
  mode             TEXT    NOT NULL CHECK (mode IN ('sandbox', 'live')),
  kind             TEXT    NOT NULL,
  kind_version     INTEGER NOT NULL CHECK (kind_version >= 1),
  priority         INTEGER NOT NULL CHECK (priority BETWEEN ${ranks.at(-1)} AND ${ranks[0]}),
  kept             TEXT    NOT NULL,
  upload_id        TEXT    REFERENCES kiln_uploads (id),
  idempotency_key  TEXT    NOT NULL,
  fingerprint      TEXT    NOT NULL,
  price_id         INTEGER REFERENCES kiln_prices (id),
  created_at       INTEGER NOT NULL,
  queue_limit_ms   INTEGER NOT NULL CHECK (queue_limit_ms >= 0),
  run_limit_ms     INTEGER NOT NULL CHECK (run_limit_ms >= 0),

  status           TEXT    NOT NULL CHECK (status = 'queued' OR status = 'processing' OR status = 'done' OR status = 'failed'),
  token            INTEGER NOT NULL CHECK (token >= 0),
  held             INTEGER NOT NULL CHECK (held IN (0, 1)),
  claimable_at     INTEGER,
  deadline_at      INTEGER,
  phase_started_at INTEGER,
  ran_ms           INTEGER NOT NULL CHECK (ran_ms >= 0),
  waited_ms        INTEGER NOT NULL CHECK (waited_ms >= 0),
  attempts         INTEGER NOT NULL CHECK (attempts >= 0),
  failures         INTEGER NOT NULL CHECK (failures >= 0),
  lost_workers     INTEGER NOT NULL CHECK (lost_workers >= 0),
  finished_at      INTEGER,
  error_code       TEXT,
  warning_code     TEXT,
  retained         TEXT    NOT NULL DEFAULT 'kept' CHECK (retained = 'kept' OR retained = 'deleted' OR retained = 'expired'),
  charge           TEXT,
  output           TEXT,
  -- NULL if it is long (then it is in kiln_job_data) or erased.
  request          TEXT,

  CHECK (held = 0 OR status = 'processing'),
  CHECK (held = 0 OR claimable_at <= deadline_at),
  CHECK ((claimable_at     IS NULL)     = (status IN ('done', 'failed'))),
  CHECK ((deadline_at      IS NULL)     = (status IN ('done', 'failed'))),
  CHECK ((phase_started_at IS NULL)     = (status IN ('done', 'failed'))),
  CHECK ((finished_at      IS NOT NULL) = (status IN ('done', 'failed'))),
  CHECK ((error_code       IS NOT NULL) = (status = 'failed')),
  -- A failed job may have one, with what it tells its caller.
  CHECK ((output           IS NOT NULL) = (status = 'done' AND retained = 'kept') OR (status = 'failed' AND retained = 'kept')),
  CHECK ((charge           IS NOT NULL) = (status = 'done' AND mode = 'live')),
  CHECK (retained = 'kept' OR (status IN ('done', 'failed') AND request IS NULL)),
  CHECK (mode = 'live' OR price_id IS NULL)
) STRICT;
-- One job for each idempotency key. A key that names its own job needs no entry, because the id is unique.
CREATE UNIQUE INDEX kiln_jobs_key ON kiln_jobs (key_id, idempotency_key) WHERE idempotency_key <> '${keylessPrefix}' || id;
-- A job consumes its upload by this index; there is no other flag.
CREATE UNIQUE INDEX kiln_jobs_upload ON kiln_jobs (upload_id) WHERE upload_id IS NOT NULL;
-- The order of claims: one range per priority, so that jobs that are not yet claimable are not read. Finished jobs are not in it, so
-- their number does not affect claims. Held jobs are apart from the others: a few among very many, which count against concurrency
-- limits, and of which a claim takes those whose lease has ended.
CREATE INDEX kiln_jobs_ready    ON kiln_jobs (held, lane_id, priority, claimable_at, id) WHERE claimable_at IS NOT NULL;
-- Without held jobs, of which the sweep reads all: a claim and the end of one then write one index.
CREATE INDEX kiln_jobs_deadline ON kiln_jobs (deadline_at) WHERE held = 0 AND deadline_at IS NOT NULL;
CREATE INDEX kiln_jobs_finished ON kiln_jobs (retained, kind, finished_at) WHERE finished_at IS NOT NULL;

-- Long requests. Rows exist as long as the data is kept.
CREATE TABLE kiln_job_data (
  job_seq INTEGER PRIMARY KEY REFERENCES kiln_jobs (seq) ON DELETE CASCADE,
  request TEXT NOT NULL
) STRICT;

-- Completed steps of unfinished jobs.
CREATE TABLE kiln_checkpoints (
  job_seq INTEGER NOT NULL REFERENCES kiln_jobs (seq) ON DELETE CASCADE,
  step    TEXT    NOT NULL,
  value   TEXT    NOT NULL,
  PRIMARY KEY (job_seq, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE kiln_files (
  seq        INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  job_seq    INTEGER NOT NULL REFERENCES kiln_jobs (seq) ON DELETE CASCADE,
  name       TEXT    NOT NULL,
  blob_key   TEXT    NOT NULL,
  media_type TEXT    NOT NULL,
  bytes      INTEGER NOT NULL CHECK (bytes >= 0),
  sha256     TEXT    NOT NULL,
  UNIQUE (job_seq, name)
) STRICT;

-- The ledger. It has no foreign keys, because it outlives the jobs.
CREATE TABLE kiln_charges (
  job_id     TEXT    NOT NULL PRIMARY KEY,
  project_id TEXT    NOT NULL,
  key_id     TEXT    NOT NULL,
  kind       TEXT    NOT NULL,
  currency   TEXT    NOT NULL,
  amount     TEXT    NOT NULL,
  line_items TEXT    NOT NULL,
  charged_at INTEGER NOT NULL
) STRICT;
CREATE INDEX kiln_charges_by_time ON kiln_charges (charged_at, job_id);

-- How far the ledger has been read as complete: a later charge gets at least this time.
CREATE TABLE kiln_closed_ledger (
  id           INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  closed_until INTEGER NOT NULL
) STRICT;
INSERT INTO kiln_closed_ledger (id, closed_until) VALUES (1, 0);

-- Blobs that nothing refers to and that are still to be removed.
CREATE TABLE kiln_purges (
  id          INTEGER PRIMARY KEY,
  blob_prefix TEXT    NOT NULL UNIQUE,
  recorded_at INTEGER NOT NULL
) STRICT;
`

/** Facts about the blob store, in one row that is updated only if its version is unchanged, and the latest store time. */
const memory = `
CREATE TABLE kiln_blob_lineage (
  id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  version  INTEGER NOT NULL CHECK (version > 0),
  document TEXT    NOT NULL
) STRICT;

-- The latest store time of a committed write, for other processes and later starts.
CREATE TABLE kiln_store_time (
  id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  latest INTEGER NOT NULL
) STRICT;
INSERT INTO kiln_store_time (id, latest) VALUES (1, 0);

CREATE TRIGGER kiln_store_time_never_goes_back BEFORE UPDATE ON kiln_store_time
WHEN NEW.latest < OLD.latest
BEGIN SELECT RAISE(ABORT, 'store time cannot go back'); END;
`

export const jobTables = lanes + jobs + memory

/** Failed attempts, for operators. They are the job's data and go with it. No foreign key, because each new job would be checked for it. */
export const attemptTables = `
CREATE TABLE kiln_attempts (
  job_seq     INTEGER NOT NULL,
  number      INTEGER NOT NULL CHECK (number > 0),
  error_code  TEXT    NOT NULL,
  message     TEXT    NOT NULL,
  stack       TEXT,
  started_at  INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL CHECK (duration_ms >= 0),
  worker      TEXT    NOT NULL,
  PRIMARY KEY (job_seq, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kiln_attempts_only_while_kept BEFORE INSERT ON kiln_attempts
WHEN NOT EXISTS (SELECT 1 FROM kiln_jobs WHERE seq = NEW.job_seq AND retained = 'kept')
BEGIN SELECT RAISE(ABORT, 'an erased job cannot have records of attempts'); END;

-- Only the newest 20 of a job are kept.
CREATE TRIGGER kiln_attempts_are_few AFTER INSERT ON kiln_attempts
WHEN NEW.number > 20
BEGIN
  DELETE FROM kiln_attempts WHERE job_seq = NEW.job_seq AND number <= (
    SELECT number FROM kiln_attempts WHERE job_seq = NEW.job_seq ORDER BY number DESC LIMIT 1 OFFSET 20);
END;

CREATE TRIGGER kiln_attempts_go_with_job AFTER DELETE ON kiln_jobs
BEGIN DELETE FROM kiln_attempts WHERE job_seq = OLD.seq; END;

CREATE TRIGGER kiln_attempts_are_final BEFORE UPDATE ON kiln_attempts
BEGIN SELECT RAISE(ABORT, 'the record of an attempt cannot be changed'); END;
`
