import { boardDiffers, capLock, lastNumber, laneLock, nextNumber, uncountedLock, unfinishedOf } from "./facts.ts"

/** Number of charged entries from which several statements decide, which add them up by day, so that counting them stays cheap. */
const mostCharged = 200

/** When the day and the month of a store time began. */
const dayBegan = "accepted / 86400000 * 86400000"
const monthBegan = `(extract(epoch FROM date_trunc('month', to_timestamp(accepted / 1000.0) AT TIME ZONE 'UTC')) * 1000)::bigint`

/** A reservation whose transaction was rolled back does not count, as in `spending.ts`. */
const counts = `(caller_xid IS NULL OR NOT (pg_visible_in_snapshot(caller_xid, pg_current_snapshot())
            OR caller_xid >= pg_snapshot_xmax(pg_current_snapshot())) OR EXISTS (SELECT FROM "kiln".jobs WHERE jobs.id = spending.entry))`

/** What these jobs cost at most together, by owner, with the caps, which are locked. */
const asked = `(
          SELECT owner, currency, sum(amount::numeric) AS amount, bool_or(amount IS NULL) AS is_unbounded
          FROM json_to_recordset(costs) AS cost(owner text, currency text, amount text) GROUP BY owner, currency) AS asked
        JOIN "kiln".spend_caps ON spend_caps.owner = asked.owner`

/**
 * Whether upper bounds of what was spent leave it open if these jobs together pass one of the caps. From time to time they are not asked, so
 * that charges are added up.
 */
const boundsAreReached = `EXISTS (
        SELECT FROM ${asked}
        WHERE is_unbounded OR asked.currency <> spend_caps.currency OR turns % ${mostCharged} = 0
          OR coalesce(day_bound::numeric + asked.amount > day::numeric, day IS NOT NULL)
          OR coalesce(month_bound::numeric + asked.amount > month::numeric, month IS NOT NULL)
          OR EXISTS (SELECT FROM "kiln".spending WHERE spending.owner = asked.owner AND NOT in_bound AND charged_at IS NOT NULL))`

/** What was spent under the caps of these jobs, and whether the jobs together pass one of them. Then each is judged by itself. */
const readSpent = `-- First, so that a charge that is committed now stays out of the bounds.
        UPDATE "kiln".spending SET in_bound = true
        WHERE owner = ANY (owners) AND NOT in_bound AND charged_at IS NOT NULL;
        SELECT array_agg(asked.owner), array_agg(spent.day), array_agg(spent.month),
          bool_or(is_unbounded OR asked.currency <> spend_caps.currency OR entries >= ${mostCharged}
            OR coalesce(spent.day + asked.amount > spend_caps.day::numeric, false)
            OR coalesce(spent.month + asked.amount > spend_caps.month::numeric, false))
        INTO read_owners, days, months, is_full
        FROM ${asked}
        CROSS JOIN LATERAL (
          SELECT count(charged_at) AS entries,
            coalesce(sum(amount::numeric) FILTER (WHERE charged_at IS NULL OR charged_at >= ${dayBegan}), 0) AS day,
            coalesce(sum(amount::numeric) FILTER (WHERE charged_at IS NULL OR charged_at >= ${monthBegan}), 0) AS month
          FROM "kiln".spending
          WHERE spending.owner = asked.owner AND spending.currency = asked.currency AND ${counts}) AS spent`

/**
 * Writes jobs that a process has decided to accept, after it has compared the facts that decided. Locks are taken in the order in which
 * the path by the facts takes them: scopes, uploads, queue caps, spend caps, lanes. Everything is compared once all locks are held.
 */
export const acceptJobs = `
-- items:    one object a job; of is its place (from 1) in shared
-- shared:   fields that jobs have in common
-- wanted:   their lanes, each once, by id, with the shortest delay of their jobs
-- caps:     how many unfinished jobs a project may have and how many are added, with counted and counted_to, as for accept_job; NULL where
--           that was checked before
-- costs:    what jobs cost at most, for each owner whose spending the process has seen counted, or NULL. Without an amount: it is not bounded
-- labels:   the labels by which jobs are found, or NULL
-- scopes:   the scopes of unique jobs, each once, or NULL. age_ms: milliseconds for which another job keeps the scope; NULL: until it has finished
-- consumed: the uploads of jobs, each once, or NULL
-- board:    the version of the board by which jobs behind a gate were accepted; NULL without any
-- served_until: the last time at which a live worker counts as present, or NULL
-- accepted_at: the time at which everything was decided under locks, so that nothing is compared; NULL is now
-- own:      false in a transaction of a caller's, where next_at is lowered on another connection
-- patient, brief: how long it waits for its turn among processes that count a project's jobs, and for any other lock
-- channel, payload: a notification that is sent if a job is added, or NULL
-- Returns the time, and the places (from 1) of jobs that were not added: their key is bound, or their scope or upload is not free.
-- Where it adds nothing, it returns the reason: lanes, board, full, or capped where several statements decide.
-- counts: what was counted of projects, as for accept_job
CREATE FUNCTION "kiln".accept_jobs(items json, shared json, wanted json, caps json, costs json, labels json, scopes json, consumed json,
  board text, served_until bigint, accepted_at bigint, own boolean, patient text, brief text, channel text, payload text,
  OUT accepted bigint, OUT refused json, OUT reason text, OUT counts json)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
  compares boolean := accepted_at IS NULL;
  locked text[];
  lanes_found bigint;
  is_later boolean;
  unfit bigint[] := '{}';
  added text[];
  seqs bigint[];
  step record;
  project_id text;
  has_room boolean;
  is_full boolean;
  roomy text[] := '{}';
  crowded text[] := '{}';
  last_number bigint;
  numbers bigint[];
  owners text[];
  read_owners text[];
  days numeric[];
  months numeric[];
BEGIN
  IF own THEN
    PERFORM set_config('lock_timeout', brief, true);
  END IF;
  <<creation>>
  BEGIN
    IF compares AND scopes IS NOT NULL THEN
      -- A scope that no job has gets a row to lock.
      INSERT INTO "kiln".job_scopes (scope, job_seq)
      SELECT scope, 0 FROM (
        SELECT scope FROM json_to_recordset(scopes) AS taken(scope text) ORDER BY scope OFFSET 0) AS ordered
      ON CONFLICT (scope) DO NOTHING;
      SELECT array_agg(scope) INTO locked FROM (
        SELECT scope FROM "kiln".job_scopes
        WHERE scope = ANY (ARRAY(SELECT taken.scope FROM json_to_recordset(scopes) AS taken(scope text)))
        ORDER BY scope FOR NO KEY UPDATE) AS held;
    END IF;
    IF compares AND consumed IS NOT NULL THEN
      PERFORM FROM "kiln".uploads
      WHERE id = ANY (ARRAY(SELECT used.id FROM json_to_recordset(consumed) AS used(id text))) ORDER BY id FOR UPDATE;
    END IF;
    -- Statements of their own, because one that compares "caps" with NULL is planned each time.
    IF caps IS NULL THEN
      PERFORM pg_advisory_xact_lock_shared(${uncountedLock}) FROM json_to_recordset(wanted) AS lane(project_id text);
    ELSE
      PERFORM pg_advisory_xact_lock_shared(${uncountedLock}) FROM json_to_recordset(wanted) AS lane(project_id text)
      WHERE project_id <> ALL (ARRAY(SELECT cap.project_id FROM json_to_recordset(caps) AS cap(project_id text)));
    END IF;
    IF caps IS NOT NULL THEN
      -- Processes take turns here, and each is short, so a batch may wait for its turn longer than for a row.
      PERFORM set_config('lock_timeout', patient, true);
      last_number := ${lastNumber};
      FOR project_id, has_room IN
        SELECT cap.project_id, coalesce(last_number >= counted_to AND counted + last_number - counted_to + adding <= cap.cap, false)
        FROM json_to_recordset(caps) AS cap(project_id text, cap bigint, adding bigint, counted bigint, counted_to bigint)
        ORDER BY cap.project_id
      LOOP
        IF has_room THEN
          PERFORM pg_advisory_xact_lock_shared(${capLock});
          roomy := roomy || project_id;
        ELSE
          PERFORM pg_advisory_xact_lock(${capLock});
          IF NOT pg_try_advisory_xact_lock(${uncountedLock}) THEN
            crowded := crowded || project_id;
          END IF;
        END IF;
      END LOOP;
      PERFORM set_config('lock_timeout', brief, true);
      -- After the locks were granted: whoever counts holds one alone, and counts every job with a lower number.
      numbers := ARRAY(SELECT ${nextNumber} FROM generate_series(1, json_array_length(items)));
      last_number := numbers[cardinality(numbers)];
      SELECT json_agg(json_build_object('project_id', cap.project_id, 'counted', unfinished + adding, 'counted_to', last_number))
          FILTER (WHERE unfinished IS NOT NULL AND cap.project_id <> ALL (crowded)),
        bool_or(coalesce(unfinished + adding, counted + last_number - counted_to) > cap.cap)
      INTO counts, is_full
      FROM json_to_recordset(caps) AS cap(project_id text, cap bigint, adding bigint, counted bigint, counted_to bigint)
      CROSS JOIN LATERAL (
        SELECT CASE WHEN cap.project_id <> ALL (roomy) THEN ${unfinishedOf("cap")} END AS unfinished OFFSET 0) AS exact;
      IF is_full THEN
        -- Counting stops at the cap, and another cap may be higher.
        counts := NULL;
        reason := 'full';
        EXIT creation;
      END IF;
    END IF;
    IF costs IS NOT NULL THEN
      SELECT array_agg(owner) INTO owners FROM (
        SELECT owner FROM "kiln".spend_caps
        WHERE owner = ANY (ARRAY(SELECT cost.owner FROM json_to_recordset(costs) AS cost(owner text)))
        ORDER BY owner FOR NO KEY UPDATE) AS held;
    END IF;

    PERFORM pg_advisory_xact_lock_shared(${laneLock("id")}) FROM json_to_recordset(wanted) AS lane(id bigint);
    accepted := coalesce(accepted_at, "kiln".store_time());
    IF own THEN
      -- The locks were granted before this statement began, and keep the lanes' bounds from being raised until the commit.
      SELECT count(*), bool_or(next_at IS NULL OR next_at > accepted + lane.delay_ms) INTO lanes_found, is_later
      FROM json_to_recordset(wanted) AS lane(
        id bigint, project_id text, kind text, kind_version bigint, mode text, delay_ms bigint)
      JOIN "kiln".lanes ON lanes.id = lane.id AND lanes.project_id = lane.project_id AND lanes.kind = lane.kind
        AND lanes.kind_version = lane.kind_version AND lanes.mode = lane.mode;
      IF lanes_found < json_array_length(wanted) THEN
        reason := 'lanes';
        EXIT creation;
      END IF;
    END IF;
    IF board IS NOT NULL THEN
      IF accepted > served_until OR ${boardDiffers} THEN
        reason := 'board';
        EXIT creation;
      END IF;
      IF EXISTS (
        SELECT FROM json_to_recordset(shared) AS fields(project_id text, key_id text, price_id bigint)
        WHERE price_id IS NOT NULL AND EXISTS (
          SELECT FROM "kiln".spend_caps WHERE owner IN (fields.project_id, fields.key_id) AND owner <> ALL (coalesce(owners, '{}'))
          OFFSET 0)) THEN
        reason := 'capped';
        EXIT creation;
      END IF;
      IF owners IS NOT NULL AND ${boundsAreReached} THEN
        ${readSpent};
        IF is_full THEN
          reason := 'capped';
          EXIT creation;
        END IF;
      END IF;
    END IF;
    IF compares AND scopes IS NOT NULL THEN
      unfit := ARRAY(
        SELECT place FROM json_to_recordset(scopes) AS taken(place bigint, scope text, age_ms bigint)
        WHERE taken.scope <> ALL (coalesce(locked, '{}')) OR EXISTS (
          SELECT FROM "kiln".job_scopes JOIN "kiln".jobs ON jobs.seq = job_scopes.job_seq
          WHERE job_scopes.scope = taken.scope AND CASE WHEN taken.age_ms IS NULL
            THEN NOT EXISTS (SELECT FROM "kiln".results WHERE results.job_seq = jobs.seq OFFSET 0)
            ELSE accepted < jobs.created_at + taken.age_ms END OFFSET 0));
    END IF;
    IF compares AND consumed IS NOT NULL THEN
      unfit := unfit || ARRAY(
        SELECT place FROM json_to_recordset(consumed) AS used(place bigint, id text, project_id text, key_id text, mode text)
        WHERE NOT EXISTS (
          SELECT FROM "kiln".uploads
          WHERE uploads.id = used.id AND uploads.project_id = used.project_id AND uploads.key_id = used.key_id
            AND uploads.mode = used.mode AND blob_key IS NOT NULL AND NOT erased AND accepted < usable_until
            AND NOT EXISTS (SELECT FROM "kiln".jobs WHERE jobs.upload_id = used.id OFFSET 0) OFFSET 0));
    END IF;

    -- Numbered in the order in which they came; inserted in the order of their keys, so that two transactions cannot deadlock.
    WITH bound AS (
      INSERT INTO "kiln".jobs (seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, kept,
        idempotency_key, fingerprint, price_id, created_at, queue_limit_ms, run_limit_ms, delay_ms, request)
      SELECT seq, id, project_id, key_id, mode, kind, kind_version, upload_id, priority, coalesce(kept, '{}'),
        idempotency_key, fingerprint, price_id, accepted, queue_limit_ms, run_limit_ms, delay_ms, request
      FROM (
        SELECT coalesce(numbers[place], ${nextNumber}) AS seq, item.* FROM ROWS FROM (json_to_recordset(items) AS (
          of bigint, id text, idempotency_key text, fingerprint text, request text, kept text, upload_id text)
        ) WITH ORDINALITY AS item(of, id, idempotency_key, fingerprint, request, kept, upload_id, place)
        WHERE place <> ALL (unfit) OFFSET 0) AS numbered
      JOIN ROWS FROM (json_to_recordset(shared) AS (
        project_id text, key_id text, mode text, kind text, kind_version bigint, priority smallint,
        price_id bigint, queue_limit_ms bigint, run_limit_ms bigint, delay_ms bigint)
      ) WITH ORDINALITY AS fields ON fields.ordinality = numbered.of
      ORDER BY key_id, idempotency_key, seq
      ON CONFLICT (key_id, idempotency_key) DO NOTHING
      RETURNING id, seq
    )
    SELECT array_agg(id), array_agg(seq) INTO added, seqs FROM bound;
    IF coalesce(cardinality(added), 0) < json_array_length(items) THEN
      -- A job may be in the list twice.
      SELECT json_agg(place ORDER BY place) INTO refused FROM (
        SELECT place, id, row_number() OVER (PARTITION BY id ORDER BY place) AS turn
        FROM ROWS FROM (json_to_recordset(items) AS (id text)) WITH ORDINALITY AS item(id, place)) AS item
      WHERE turn > 1 OR id <> ALL (coalesce(added, '{}'));
    END IF;

    IF owners IS NOT NULL THEN
      INSERT INTO "kiln".spending (owner, entry, currency, amount, in_bound)
      SELECT cost.owner, cost.id, cost.currency, cost.amount, true
      FROM json_to_recordset(costs) AS cost(owner text, id text, currency text, amount text)
      WHERE cost.owner = ANY (owners) AND cost.id = ANY (added);
      UPDATE "kiln".spend_caps SET turns = turns + 1, day_bound = (coalesce(fresh.day, day_bound::numeric) + reserved.amount)::text,
        month_bound = (coalesce(fresh.month, month_bound::numeric) + reserved.amount)::text
      FROM (
        SELECT owner, sum(amount::numeric) AS amount FROM json_to_recordset(costs) AS cost(owner text, amount text)
        GROUP BY owner) AS reserved
      LEFT JOIN unnest(read_owners, days, months) AS fresh(owner, day, month) ON fresh.owner = reserved.owner
      WHERE spend_caps.owner = reserved.owner;
    END IF;
    IF labels IS NOT NULL THEN
      INSERT INTO "kiln".job_labels (label, created_at, job_id, job_seq)
      SELECT given.label, accepted, job.id, job.seq FROM json_to_recordset(labels) AS given(id text, label text)
      JOIN unnest(added, seqs) AS job(id, seq) ON job.id = given.id
      ON CONFLICT DO NOTHING;
    END IF;
    IF scopes IS NOT NULL THEN
      UPDATE "kiln".job_scopes SET job_seq = job.seq
      FROM json_to_recordset(scopes) AS taken(id text, scope text) JOIN unnest(added, seqs) AS job(id, seq) ON job.id = taken.id
      WHERE job_scopes.scope = taken.scope;
    END IF;
    IF consumed IS NOT NULL THEN
      -- Removes the uploads from the index of the sweep.
      UPDATE "kiln".uploads SET sweep_at = NULL WHERE uploads.id = ANY (ARRAY(
        SELECT used.id FROM json_to_recordset(consumed) AS used(id text, job text) WHERE used.job = ANY (added)));
    END IF;
    IF is_later THEN
      FOR step IN SELECT id, delay_ms FROM json_to_recordset(wanted) AS lane(id bigint, delay_ms bigint) LOOP
        UPDATE "kiln".lanes SET next_at = accepted + step.delay_ms
        WHERE id = step.id AND (next_at IS NULL OR next_at > accepted + step.delay_ms);
      END LOOP;
    END IF;
    IF channel IS NOT NULL AND added IS NOT NULL THEN
      PERFORM pg_notify(channel, payload);
    END IF;
  END creation;

  IF reason IS NOT NULL THEN
    accepted := NULL;
  END IF;
  IF compares AND scopes IS NOT NULL AND (reason IS NOT NULL OR refused IS NOT NULL) THEN
    DELETE FROM "kiln".job_scopes WHERE job_seq = 0 AND scope = ANY (locked);
  END IF;
END $$;
`
