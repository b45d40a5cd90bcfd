import { priorityRank } from "@kiln/core/domain"
import type { Migration } from "@kiln/core/ports"
import { claimedColumns, columnArrays, hasRest, queueColumns, readRests } from "./initial/claimedColumns.ts"
import { ranksOf } from "./initial/ranks.ts"

const { normal } = priorityRank

/** More jobs than a claim can ask for: the room of what has no limit. */
const unlimited = "9007199254740991"

/** The columns of a single job. */
const columnsOfOne = `json_build_object(${Object.entries(claimedColumns)
  .map(([name, source]) => `'${name}', json_build_array(${source})`)
  .join(", ")})`

/**
 * Counts held jobs, by kind and by project, and finds the kinds and projects that are at their limits. An index that contains only
 * held jobs answers it. Claims with limits run one at a time, so each counts the jobs of the one before.
 */
const countHeld = `
    SELECT coalesce(jsonb_object_agg(held.name, held.count), '{}'), coalesce(array_agg(held.name) FILTER (WHERE is_full), '{}'),
      json_agg(json_build_object('mode', mode, 'kind', kind, 'projectId', project_id, 'firstEnd', first_end)) FILTER (WHERE is_full)
    INTO counted, names_full, full_now
    FROM (
      SELECT grouped.*, CASE WHEN kind IS NULL THEN coalesce(nullif(coalesce((own_limits ->> project_id)::bigint, project_limit), 0) <= count, false)
          ELSE coalesce((kind_limits ->> kind)::bigint <= count, false) END AS is_full,
        CASE WHEN kind IS NULL THEN mode || ' ' || project_id ELSE 'kind ' || mode || ' ' || kind END AS name
      FROM (
        SELECT mode, kind, project_id, count(*) AS count, min(claimable_at) AS first_end FROM "kiln".queue
        WHERE held AND claimable_at > claim_time GROUP BY GROUPING SETS ((mode, kind), (mode, project_id))) AS grouped) AS held;`

/** Takes turns with other claims that have limits, and determines the room under the limits of the installation. */
const applyLimits = `
  IF kind_limits IS NOT NULL AND NOT EXISTS (
    SELECT FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text)
    CROSS JOIN LATERAL (
      SELECT FROM "kiln".lanes WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode
        AND next_at >= 0 AND next_at <= claim_time LIMIT 1) AS due) THEN
    -- A worker that finds nothing waits for no other claim. It takes nothing even if a job is added meanwhile.
    most := 0;
  ELSIF kind_limits IS NOT NULL THEN
    IF patient IS NULL THEN
      IF NOT pg_try_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0)) THEN
        RETURN NEXT;
        RETURN;
      END IF;
    ELSE
      -- Processes take turns here, and each is short, so a claim may wait for its turn longer than for a row.
      ignored := set_config('lock_timeout', patient, true);
      ignored := pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0));
    END IF;
    claim_time := "kiln".store_time();
${countHeld}
    full_projects := full_projects || names_full;
    quotas := kind_room;
    SELECT array_agg('kind ' || mode || ' ' || kind ORDER BY place), array_agg((kind_limits ->> kind)::bigint ORDER BY place)
    INTO kind_names, kind_most FROM (
      SELECT DISTINCT ON (place) * FROM json_to_recordset(kinds) AS runnable(kind text, mode text, place int) ORDER BY place) AS each_kind;
    FOR place IN 1..cardinality(kind_names) LOOP
      kind_room[place] := least(quotas[place], kind_most[place] - coalesce((counted ->> kind_names[place])::bigint, 0));
    END LOOP;
  END IF;`

/** The room of the lane's project: in the worker, given how many of its jobs this claim has, and under its limit. */
const roomOfProject = (owner: string, taken: string): string =>
  `least(CASE WHEN project_slots = 0 THEN ${unlimited} ELSE project_slots - coalesce((held_jobs ->> ${owner})::bigint, 0) - ${taken} END,
        nullif(coalesce((own_limits ->> substr(${owner}, strpos(${owner}, ' ') + 1))::bigint, project_limit), 0) - coalesce((counted ->> ${owner})::bigint, 0))`

/**
 * A job that has run for as long as it may is claimed under a lease that is over: it counts for the worker and not for the limits of the
 * installation. That is rare, so all room is then determined anew.
 */
const countAgain = `
    IF is_over AND kind_limits IS NOT NULL THEN
${countHeld}
      FOR lane IN 1..lane_count LOOP
        SELECT coalesce(sum(item.count) FILTER (WHERE item.project = projects[lane]), 0),
          coalesce(sum(item.count) FILTER (WHERE item.place = places[lane]), 0)
        INTO taken, given FROM unnest(counts, projects, places) AS item(count, project, place);
        project_room[projects[lane]] := ${roomOfProject("owners[lane]", "taken")};
        kind_room[places[lane]] := least(quotas[places[lane]] - given,
          kind_most[places[lane]] - coalesce((counted ->> kind_names[places[lane]])::bigint, 0));
      END LOOP;
      is_done := false;
    END IF;`

/**
 * The usual claim of a worker that rests: one job is claimable, alone. The statements that decide between lanes and ranks cost the
 * server several times as much, whatever they find. It leaves everything to them where a second job is claimable, a job has
 * lost a worker, the lane has jobs of other ranks, or the worker has no room for two.
 */
const takeAlone = `
  IF may_be_alone AND most > 0 AND kind_limits IS NULL AND NOT is_repeated THEN
    -- The lane that is due, if there is only one, and when the next one is.
    SELECT min(first.next_at) FILTER (WHERE next_at <= claim_time), min(first.next_at) FILTER (WHERE next_at > claim_time),
      CASE WHEN count(*) FILTER (WHERE next_at <= claim_time) = 1 THEN min(first.id) FILTER (WHERE next_at <= claim_time) END,
      min(kind_room[place]) FILTER (WHERE next_at <= claim_time) > 1
    INTO only_floor, only_next, only_lane, has_room
    FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text, place int)
    CROSS JOIN LATERAL (
      SELECT lanes.id, next_at FROM "kiln".lanes
      WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode AND next_at >= 0
      ORDER BY next_at LIMIT 2) AS first;
    IF only_lane IS NOT NULL AND has_room THEN
      SELECT queue.id INTO only_job FROM "kiln".queue
      WHERE queue.lane_id = only_lane AND queue.priority = ${normal} AND claimable_at >= only_floor AND claimable_at <= claim_time
        AND deadline_at > claim_time AND NOT held AND lost_workers = 0
      ORDER BY claimable_at, queue.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF only_job IS NOT NULL THEN
      SELECT json_build_object('id', lanes.id, 'projectId', project_id, 'kind', kind, 'kindVersion', kind_version, 'mode', mode),
        greatest(fairness.virtual_time, noted_clock),
        greatest(lanes.virtual_time, fairness.virtual_time, noted_clock, (noted_turns ->> only_lane::text)::bigint),
        mode_room[CASE lanes.mode WHEN 'live' THEN 2 ELSE 1 END] > 1 AND (lanes.mode || ' ' || project_id) <> ALL (full_projects) AND
          (project_slots = 0 OR project_slots > 1 + coalesce((held_jobs ->> (lanes.mode || ' ' || project_id))::bigint, 0)),
        -- When the next job of the lane becomes claimable; 0 if it has jobs of other ranks.
        least((
          SELECT later.claimable_at FROM "kiln".queue AS later
          WHERE later.lane_id = only_lane AND later.priority = ${normal} AND later.claimable_at >= only_floor
            AND later.deadline_at > greatest(later.claimable_at, claim_time) AND later.id <> only_job
          ORDER BY later.claimable_at LIMIT 1), (
          SELECT 0 FROM "kiln".queue AS above WHERE above.lane_id = only_lane AND above.priority > ${normal} LIMIT 1), (
          SELECT 0 FROM "kiln".queue AS below WHERE below.lane_id = only_lane AND below.priority < ${normal} LIMIT 1), only_next)
      INTO summary, clock, turn_now, has_room, only_next
      FROM "kiln".lanes, "kiln".fairness WHERE lanes.id = only_lane AND fairness.id = 1;
      IF has_room AND coalesce(only_next > claim_time, true) THEN
        -- A repeated call waits here for this one.
        ignored := pg_advisory_xact_lock(claim);
        WITH mine AS (
          UPDATE "kiln".queue SET status = 'processing', token = queue.token + 1, held = true,
            claimable_at = least(claim_time + lease_ms, claim_time + run_limit_ms - ran_ms),
            deadline_at = CASE WHEN lease_ms >= run_limit_ms - ran_ms THEN claim_time + run_limit_ms - ran_ms ELSE
              claim_time + lease_ms + greatest(0, queue_limit_ms - waited_ms - greatest(0, claim_time - phase_started_at)) END,
            phase_started_at = claim_time, waited_ms = waited_ms + greatest(0, claim_time - phase_started_at),
            attempts = queue.attempts + 1, claim_id = claim
          WHERE queue.id = only_job
          RETURNING ${queueColumns})
        SELECT ${columnsOfOne}, CASE WHEN ${hasRest} THEN ARRAY[mine.job_seq] END,
          -- The job itself, unless it may not run for longer than its lease.
          least(only_next, CASE WHEN mine.deadline_at > mine.claimable_at THEN mine.claimable_at END)
        INTO claimed, with_rest, only_next
        FROM mine LEFT JOIN "kiln".jobs ON jobs.seq = mine.job_seq;
        IF with_rest IS NOT NULL THEN
${readRests}
        END IF;
        summary := json_build_object('now', claim_time, 'clock', clock, 'isPage', false,
          'lanesOfJobs', json_build_array(summary), 'lanes', json_build_array(
            json_build_object('id', only_lane, 'start', turn_now, 'count', 1, 'isEmpty', most > 1)), 'nextAt', only_next);
        RETURN NEXT;
        RETURN;
      END IF;
      summary := NULL;
    END IF;
  END IF;`

const lanesWhere = (turn: string, order: string): string => `
      (SELECT lanes.id, project_id, lanes.mode, virtual_time, next_at FROM "kiln".lanes
       WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode
         AND next_at <= claim_time AND (lanes.mode || ' ' || project_id) <> ALL (full_projects) AND lanes.id <> ALL (skipped)
         AND virtual_time ${turn} (SELECT clock FROM fair)
       ORDER BY ${order} LIMIT page)`

/**
 * Finds the lanes that may have claimable jobs and are not full, in the order in which they are served. Lanes behind the clock start at
 * the clock: a lane without claimable jobs does not accumulate credit. They are ordered by their creation. Lanes ahead of the
 * clock start at their own virtual time.
 */
const findLanes = `
  WITH fair AS MATERIALIZED (
    SELECT greatest(virtual_time, noted_clock) AS clock FROM "kiln".fairness WHERE fairness.id = 1
  ), due AS (
    SELECT lane.id, lane.project_id, lane.mode || ' ' || lane.project_id AS owner, lane.mode, lane.next_at, runnable.place,
      greatest(lane.virtual_time, (noted_turns ->> lane.id::text)::bigint, (SELECT clock FROM fair)) AS turn
    FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text, place int)
    CROSS JOIN LATERAL (${lanesWhere("<=", "lanes.id")}
      UNION ALL${lanesWhere(">", "virtual_time, lanes.id")}
    ) AS lane
    WHERE kind_room[runnable.place] > 0
  ), ordered AS (
    SELECT due.id, next_at, turn, owner, CASE due.mode WHEN 'live' THEN 2 ELSE 1 END AS slot, place,
      dense_rank() OVER (ORDER BY owner) AS project,
      ${roomOfProject("owner", "0")} AS project_room
    FROM due ORDER BY turn, due.id
  )
  SELECT (SELECT clock FROM fair), array_agg(ordered.id), array_agg(next_at), array_agg(turn), array_agg(owner),
    array_agg(slot), array_agg(place), array_agg(project), array_agg(ordered.project_room)
  INTO clock, lanes_found, floors, turns, owners, slots, places, projects, project_rooms FROM ordered;`

/**
 * Distributes turns among the lanes that are left by start-time fair queueing, as if each had enough jobs: a served lane returns
 * one turn later. No lane exceeds its room. Where limits of kinds and of projects cross, it stops at a lane that only the turns of others
 * hold back: if those prove to be empty, this lane comes before the ones behind it.
 */
const shareTurns = `
    shares := array_fill(0, ARRAY[lane_count]);
    given := 0;
    is_done := true;
    IF lane_count = 1 THEN
      given := greatest(0, least(most, mode_room[slots[1]], project_room[1], kind_room[places[1]]));
      shares[1] := given;
      mode_room[slots[1]] := mode_room[slots[1]] - given;
      project_room[1] := project_room[1] - given;
      kind_room[places[1]] := kind_room[places[1]] - given;
    ELSE
      IF limits_cross THEN
        mode_before := mode_room;
        project_before := project_room;
        kind_before := kind_room;
      END IF;
      -- Lanes leave in order, so they return in order: those that were not served yet, and those that were, are two lines.
      fresh := ARRAY(
        SELECT ord FROM unnest(turns, lanes_found, is_empty) WITH ORDINALITY AS item(turn, lane_id, empty, ord)
        WHERE NOT empty ORDER BY turn, lane_id);
      again := '{}';
      again_turns := '{}';
      next_fresh := 1;
      next_again := 1;
      WHILE given < most LOOP
        IF next_again <= cardinality(again) AND (next_fresh > cardinality(fresh) OR
            (again_turns[next_again], lanes_found[again[next_again]]) <
            (turns[fresh[next_fresh]], lanes_found[fresh[next_fresh]])) THEN
          lane := again[next_again];
          turn_now := again_turns[next_again];
          next_again := next_again + 1;
        ELSIF next_fresh <= cardinality(fresh) THEN
          lane := fresh[next_fresh];
          turn_now := turns[lane];
          next_fresh := next_fresh + 1;
        ELSE
          EXIT;
        END IF;
        IF mode_room[slots[lane]] <= 0 OR project_room[projects[lane]] <= 0 OR kind_room[places[lane]] <= 0 THEN
          IF limits_cross AND
              least(mode_before[slots[lane]], project_before[projects[lane]], kind_before[places[lane]]) > shares[lane] THEN
            is_done := false;
            EXIT;
          END IF;
          CONTINUE;
        END IF;
        mode_room[slots[lane]] := mode_room[slots[lane]] - 1;
        project_room[projects[lane]] := project_room[projects[lane]] - 1;
        kind_room[places[lane]] := kind_room[places[lane]] - 1;
        shares[lane] := shares[lane] + 1;
        again := again || lane;
        again_turns := again_turns || (turn_now + 1);
        given := given + 1;
      END LOOP;
    END IF;`

/**
 * Locks the first jobs of each lane and claims them. The new state is the one that \`applyEvent\` gives for a claim. Jobs that have
 * lost too many workers are left for the caller, which fails them. A repeated call returns what it claimed before. A job is updated where it
 * was locked: until the commit, nobody else can move it from there. Nested loops, of which all plans here consist, keep the jobs
 * in the order in which they were locked.
 */
const claimHeads = `
    WITH head AS MATERIALIZED (
      SELECT head.*, item.lane_id FROM unnest(lanes_found, floors, shares) AS item(lane_id, floor, share)
      CROSS JOIN LATERAL (
        SELECT ready.*, claim_time + run_limit_ms - ran AS run_end, least(claim_time + lease_ms, claim_time + run_limit_ms - ran) AS lease_end
        FROM ${ranksOf("item.lane_id", "item.floor")} AS step
        CROSS JOIN LATERAL (
          SELECT queue.ctid AS tid, queue.id, queue.token, queue_limit_ms, run_limit_ms, lost_workers + queue.held::int AS lost,
            waited_ms + CASE WHEN queue.held THEN 0 ELSE greatest(0, claim_time - phase_started_at) END AS waited,
            ran_ms + CASE WHEN queue.held THEN greatest(0, claimable_at - phase_started_at) ELSE 0 END AS ran
          FROM "kiln".queue
          WHERE queue.lane_id = item.lane_id AND queue.priority = step.rank AND claimable_at >= item.floor
            AND claimable_at <= claim_time AND deadline_at > claim_time AND queue.id <> ALL (abandoned)
          ORDER BY claimable_at, queue.id LIMIT item.share
          FOR UPDATE SKIP LOCKED) AS ready
        LIMIT item.share) AS head
      WHERE item.share > 0 AND NOT is_claimed
    ), lost AS MATERIALIZED (
      SELECT array_agg(head.id) AS ids, array_agg(head.lane_id) AS lane_ids FROM head WHERE head.lost >= max_lost
    ), moved AS (
      UPDATE "kiln".queue SET status = 'processing', token = queue.token + 1, held = true, claimable_at = lease_end,
        deadline_at = CASE WHEN lease_end = run_end THEN run_end ELSE lease_end + greatest(0, head.queue_limit_ms - waited) END,
        phase_started_at = claim_time, ran_ms = ran, waited_ms = waited, attempts = queue.attempts + 1, lost_workers = head.lost,
        claim_id = claim
      FROM head
      WHERE queue.ctid = head.tid AND queue.token = head.token AND head.lost < max_lost
      RETURNING ${queueColumns}
    ), mine AS (
      SELECT * FROM moved
      UNION ALL
      (SELECT ${queueColumns} FROM "kiln".queue WHERE is_claimed AND queue.held AND queue.claim_id = claim ORDER BY queue.job_seq)
    )
    SELECT lost.ids, lost.lane_ids, claims.* INTO lost_now, lanes_of_lost, claimed, served, with_rest, is_over FROM lost CROSS JOIN (
      SELECT ${columnArrays}, array_agg(mine.lane_id), array_agg(mine.job_seq) FILTER (WHERE ${hasRest}),
        bool_or(mine.claimable_at <= claim_time)
      FROM mine LEFT JOIN "kiln".jobs ON jobs.seq = mine.job_seq AND reads) AS claims;`

/** Counts what each lane gave, and takes back the room of what it did not give. What is left goes to the others. */
const countTaken = `
    IF served IS NOT NULL THEN
      rests := NULL;
      IF with_rest IS NOT NULL AND reads THEN
${readRests}
      END IF;
      RETURN NEXT;
      taken := cardinality(served);
      most := most - taken;
      IF lane_count = 1 AND NOT is_claimed THEN
        lanes_of_jobs := lanes_found;
        is_visited[1] := true;
        counts[1] := counts[1] + taken;
        shares[1] := shares[1] - taken;
      ELSE
        FOR lane, lane_id, taken IN
          SELECT array_position(lanes_found, job.lane_id), job.lane_id, count(*) FROM unnest(served) AS job(lane_id) GROUP BY job.lane_id
        LOOP
          lanes_of_jobs := lanes_of_jobs || lane_id;
          CONTINUE WHEN lane IS NULL;
          is_visited[lane] := true;
          counts[lane] := counts[lane] + taken;
          shares[lane] := shares[lane] - taken;
          turns[lane] := turns[lane] + taken;
        END LOOP;
      END IF;
    END IF;
    EXIT WHEN is_claimed;
    -- A lane with jobs that have lost too many workers is searched again.
    again := '{}';
    IF lost_now IS NOT NULL THEN
      abandoned := abandoned || lost_now;
      is_done := false;
      FOR lane, taken IN
        SELECT array_position(lanes_found, job.lane_id), count(*) FROM unnest(lanes_of_lost) AS job(lane_id) GROUP BY job.lane_id
      LOOP
        IF shares[lane] = taken THEN
          again := again || lane;
        END IF;
      END LOOP;
    END IF;
    FOR lane IN 1..lane_count LOOP
      is_visited[lane] := is_visited[lane] OR shares[lane] > 0;
      IF shares[lane] > 0 THEN
        is_empty[lane] := lane <> ALL (again);
        is_done := is_done AND lane_count = 1;
        mode_room[slots[lane]] := mode_room[slots[lane]] + shares[lane];
        project_room[projects[lane]] := project_room[projects[lane]] + shares[lane];
        kind_room[places[lane]] := kind_room[places[lane]] + shares[lane];
      END IF;
    END LOOP;
${countAgain}
    EXIT WHEN is_done OR (lane_count = 1 AND is_empty[1]);`

/**
 * When another job may become claimable: the first entry of each lane that was found and still has room, and the bounds of the
 * other lanes. A lane that was searched to its end counts from later entries; others are being claimed right now. Where a job is
 * claimable already, the rest is not looked at.
 */
const findNext = `
  FOR first_at IN
    SELECT first.claimable_at FROM unnest(lanes_found, floors, slots, places, projects, is_empty)
      AS item(lane_id, floor, slot, place, project, empty)
    CROSS JOIN LATERAL ${ranksOf("item.lane_id", "item.floor")} AS step
    CROSS JOIN LATERAL (
      SELECT claimable_at FROM "kiln".queue
      WHERE queue.lane_id = item.lane_id AND queue.priority = step.rank
        AND claimable_at >= CASE WHEN item.empty THEN greatest(item.floor, claim_time + 1) ELSE item.floor END
        AND deadline_at > greatest(claimable_at, claim_time) AND queue.id <> ALL (abandoned)
      ORDER BY claimable_at LIMIT 1) AS first
    WHERE mode_room[item.slot] > 0 AND project_room[item.project] > 0 AND kind_room[item.place] > 0
  LOOP
    soonest := least(soonest, first_at);
    EXIT WHEN soonest <= claim_time;
  END LOOP;`

const summarize = `
  SELECT json_build_object('now', claim_time, 'clock', clock, 'isPage', lane_count >= page, 'full', full_now,
    'abandoned', CASE WHEN abandoned <> '{}' THEN to_json(abandoned) END,
    'lanesOfJobs', (
      SELECT json_agg(json_build_object('id', id, 'projectId', project_id, 'kind', kind, 'kindVersion', kind_version, 'mode', mode))
      FROM "kiln".lanes WHERE id = ANY (lanes_of_jobs)),
    'lanes', (
      SELECT json_agg(json_build_object('id', lane_id, 'start', start, 'count', count, 'isEmpty', empty) ORDER BY ord)
      FROM unnest(lanes_found, starts, counts, is_empty, is_visited) WITH ORDINALITY AS found(lane_id, start, count, empty, visited, ord)
      WHERE visited),
    'nextAt', CASE WHEN soonest <= claim_time THEN soonest ELSE least(soonest, (
      SELECT min(first.next_at) FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text, place int)
      CROSS JOIN LATERAL (
        SELECT next_at FROM "kiln".lanes
        WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode AND next_at >= 0
          AND lanes.id <> ALL (lanes_found) AND lanes.id <> ALL (skipped) AND (lanes.mode || ' ' || project_id) <> ALL (full_projects)
        ORDER BY next_at LIMIT 1) AS first
      WHERE mode_room[CASE runnable.mode WHEN 'live' THEN 2 ELSE 1 END] > 0 AND kind_room[runnable.place] > 0)) END) INTO summary;`

const takeFunction = `
-- claim:         identifies this call
-- is_repeated:   its answer may have been lost
-- kinds:         lanes that the worker can run, each with its place in kind_room
-- most:          maximum number of jobs
-- max_lost:      a job that has lost so many workers is not claimed
-- reads:         false to claim without reading the jobs themselves
-- may_be_alone:  whether to look first for a job that is claimable alone
-- mode_room:     the worker's free slots, sandbox and live
-- kind_room:     what the worker may start of each kind and mode
-- project_slots: how many slots of each mode one project may hold; 0 is no limit
-- held_jobs:     the jobs in the worker's slots, by 'mode project'
-- kind_limits, project_limit, own_limits: limits of the whole installation; NULL, 0 and NULL if there are none
-- limits_cross:  whether a job can count towards the limit or room of a kind and the limit of a project
-- full_projects: projects that hold all of their slots, each as 'mode project'
-- noted_turns, noted_clock: positions of lanes that the process has not saved yet
-- skipped:       lanes that were searched already
-- page:          maximum number of lanes of a kind that are read
-- patient:       how long it waits for its turn among claims with limits; NULL to claim nothing if it is not its turn
-- Returns a row for the jobs of each round, with an array for each column, and a last row with the summary, which is NULL if it was not its turn.
CREATE FUNCTION "kiln".take_jobs(claim bigint, is_repeated boolean, kinds json, most bigint, lease_ms bigint, max_lost bigint, reads boolean,
  may_be_alone boolean, mode_room bigint[], kind_room bigint[], project_slots bigint, held_jobs jsonb, kind_limits jsonb,
  project_limit bigint, own_limits jsonb, limits_cross boolean, full_projects text[], noted_turns jsonb, noted_clock bigint,
  skipped bigint[], page bigint, patient text)
RETURNS TABLE (claimed json, rests json, summary json) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  claim_time bigint := "kiln".store_time();
  clock bigint;
  counted jsonb := '{}';
  names_full text[];
  kind_names text[];
  kind_most bigint[];
  quotas bigint[];
  full_now json;
  lanes_found bigint[];
  floors bigint[];
  turns bigint[];
  starts bigint[];
  owners text[];
  slots int[];
  places int[];
  projects bigint[];
  project_rooms bigint[];
  project_room bigint[] := '{}';
  mode_before bigint[];
  project_before bigint[];
  kind_before bigint[];
  shares int[];
  counts int[];
  is_empty boolean[];
  is_visited boolean[];
  is_claimed boolean := false;
  is_done boolean;
  is_over boolean;
  is_near boolean := false;
  lane_count int;
  served bigint[];
  with_rest bigint[];
  lost_now text[];
  lanes_of_lost bigint[];
  abandoned text[] := '{}';
  lanes_of_jobs bigint[] := '{}';
  fresh bigint[];
  again bigint[];
  again_turns bigint[];
  next_fresh int;
  next_again int;
  given bigint;
  lane int;
  turn_now bigint;
  lane_id bigint;
  taken bigint;
  first_at bigint;
  soonest bigint;
  only_lane bigint;
  only_floor bigint;
  only_next bigint;
  only_job text;
  has_room boolean;
  ignored text;
BEGIN
${takeAlone}
${applyLimits}
${findLanes}
  lane_count := coalesce(cardinality(lanes_found), 0);
  lanes_found := coalesce(lanes_found, '{}');
  IF is_repeated OR lane_count > 0 THEN
    -- A call that is repeated waits here for the one before, whose end the server may not have noticed.
    ignored := pg_advisory_xact_lock(claim);
    is_claimed := is_repeated AND EXISTS (SELECT FROM "kiln".queue WHERE queue.held AND queue.claim_id = claim);
  END IF;
  starts := turns;
  counts := array_fill(0, ARRAY[lane_count]);
  is_empty := array_fill(false, ARRAY[lane_count]);
  is_visited := is_empty;
  FOR lane IN 1..lane_count LOOP
    project_room[projects[lane]] := project_rooms[lane];
  END LOOP;

  WHILE most > 0 AND (lane_count > 0 OR is_claimed) LOOP
${shareTurns}
    EXIT WHEN given = 0 AND NOT is_claimed;
${claimHeads}
${countTaken}
  END LOOP;
  FOR lane IN 1..lane_count LOOP
    IF project_room[projects[lane]] <= 0 THEN
      full_projects := full_projects || owners[lane];
      is_near := true;
    END IF;
    is_near := is_near OR kind_room[places[lane]] <= 0;
  END LOOP;
  IF is_near AND kind_limits IS NOT NULL THEN
${countHeld}
  END IF;
${findNext}
${summarize}
  claimed := NULL;
  rests := NULL;
  RETURN NEXT;
END $$;
`

/**
 * One statement for every claim. \`claim_jobs\` stays for processes of the previous version, which use it where no limits, rates or
 * lost workers matter, and several statements elsewhere. Both take the same lock for limits.
 */
export const takeJobs: Migration = { name: "0009TakeJobs", sql: takeFunction }
