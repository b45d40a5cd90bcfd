import { rankOf } from "@kiln/core/rules"
import { claimedColumns, columnArrays, hasRest, queueColumns, readRests } from "./claimedColumns.ts"
import { ranksOf } from "./ranks.ts"

const normal = rankOf("normal")

/** The columns of a single job. */
const columnsOfOne = `json_build_object(${Object.entries(claimedColumns)
  .map(([name, source]) => `'${name}', json_build_array(${source})`)
  .join(", ")})`

/**
 * The usual claim of a worker that rests: one job is claimable, alone. A first part of `claim_jobs`, because the statements that
 * decide between lanes and ranks cost the server several times as much, whatever they find. It leaves everything to them where a
 * second job is claimable, a job has lost a worker, the lane has jobs of other ranks, or the worker has no room for two.
 */
const claimAlone = `
  DECLARE
    only_lane bigint;
    only_floor bigint;
    only_next bigint;
    only_job text;
    has_room boolean;
  BEGIN
  IF may_be_alone AND most > 0 AND NOT is_repeated THEN
    -- The lane that is due, if there is only one, and when the next one is.
    SELECT min(first.next_at) FILTER (WHERE next_at <= claim_time), min(first.next_at) FILTER (WHERE next_at > claim_time),
      CASE WHEN count(*) FILTER (WHERE next_at <= claim_time) = 1 THEN min(first.id) FILTER (WHERE next_at <= claim_time) END
    INTO only_floor, only_next, only_lane
    FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text)
    CROSS JOIN LATERAL (
      SELECT lanes.id, next_at FROM "kiln".lanes
      WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode AND next_at >= 0
      ORDER BY next_at LIMIT 2) AS first;
    IF only_lane IS NOT NULL THEN
      SELECT queue.id INTO only_job FROM "kiln".queue
      WHERE queue.lane_id = only_lane AND queue.priority = ${normal} AND claimable_at >= only_floor AND claimable_at <= claim_time
        AND deadline_at > claim_time AND NOT held AND lost_workers = 0
      ORDER BY claimable_at, queue.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF only_job IS NOT NULL THEN
      SELECT json_build_object('id', lanes.id, 'projectId', project_id, 'kind', kind, 'kindVersion', kind_version, 'mode', mode),
        greatest(fairness.virtual_time, noted_clock), greatest(lanes.virtual_time, fairness.virtual_time, noted_clock, (
          SELECT turn FROM json_to_recordset(noted_turns) AS noted(id bigint, turn bigint) WHERE noted.id = only_lane)),
        room[CASE lanes.mode WHEN 'live' THEN 2 ELSE 1 END] > 1 AND (lanes.mode || ' ' || project_id) <> ALL (full_projects) AND
          (project_slots = 0 OR project_slots > 1 + coalesce((
            SELECT count FROM json_to_recordset(held_jobs) AS held(mode text, "projectId" text, count bigint)
            WHERE held.mode = lanes.mode AND held."projectId" = project_id), 0)),
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
    END IF;
    IF has_room AND coalesce(only_next > claim_time, true) THEN
      -- A repeated call waits here for this one.
      is_done := pg_advisory_xact_lock(claim) IS NULL;
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
      summary := json_build_object('now', claim_time, 'clock', clock, 'isLost', false, 'isPage', false,
        'lanesOfJobs', json_build_array(summary), 'lanes', json_build_array(
          json_build_object('id', only_lane, 'start', turn_now, 'count', 1, 'isEmpty', most > 1)), 'nextAt', only_next);
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;
  summary := NULL;
  END;
`

/** The SQLSTATE of a call that claimed some jobs and then met a lost worker. It is undone and decided by the rules. */
const lostWorkerState = "KI001"

/**
 * Finds the lanes that may have claimable jobs and are not full, in the order in which they are served: `lanesBehind` and
 * `lanesAhead` in one statement.
 */
const findLanes = `
  WITH fair AS MATERIALIZED (
    SELECT greatest(virtual_time, noted_clock) AS clock FROM "kiln".fairness WHERE fairness.id = 1
  ), due AS (
    SELECT lane.id, lane.project_id, lane.mode, lane.next_at,
      greatest(lane.virtual_time, noted.turn, (SELECT clock FROM fair)) AS turn
    FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text)
    CROSS JOIN LATERAL (
      (SELECT lanes.id, project_id, lanes.mode, virtual_time, next_at FROM "kiln".lanes
       WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode
         AND next_at <= claim_time AND (lanes.mode || ' ' || project_id) <> ALL (full_projects)
         AND virtual_time <= (SELECT clock FROM fair)
       ORDER BY lanes.id LIMIT page)
      UNION ALL
      (SELECT lanes.id, project_id, lanes.mode, virtual_time, next_at FROM "kiln".lanes
       WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode
         AND next_at <= claim_time AND (lanes.mode || ' ' || project_id) <> ALL (full_projects)
         AND virtual_time > (SELECT clock FROM fair)
       ORDER BY virtual_time, lanes.id LIMIT page)
    ) AS lane
    LEFT JOIN json_to_recordset(noted_turns) AS noted(id bigint, turn bigint) ON noted.id = lane.id
  ), ordered AS (
    SELECT due.id, next_at, turn, due.mode || ' ' || project_id AS owner, CASE due.mode WHEN 'live' THEN 2 ELSE 1 END AS slot,
      dense_rank() OVER (ORDER BY due.mode, project_id) AS project,
      CASE WHEN project_slots = 0 THEN 9007199254740991 ELSE project_slots - coalesce(held.count, 0) END AS project_room
    FROM due LEFT JOIN json_to_recordset(held_jobs) AS held(mode text, "projectId" text, count bigint)
      ON held.mode = due.mode AND held."projectId" = project_id
    ORDER BY turn, due.id
  )
  SELECT (SELECT clock FROM fair), array_agg(ordered.id), array_agg(next_at), array_agg(turn), array_agg(owner),
    array_agg(slot), array_agg(project), array_agg(project_room)
  INTO clock, lanes_found, floors, turns, owners, slots, projects, project_rooms FROM ordered;`

/** Distributes turns among the lanes that are left: `shareTurns`, with the worker's own slots as the only limits. */
const shareTurns = `
    shares := array_fill(0, ARRAY[lane_count]);
    given := 0;
    IF lane_count = 1 THEN
      given := greatest(0, least(most, mode_room[slots[1]], project_room[1]));
      shares[1] := given;
      mode_room[slots[1]] := mode_room[slots[1]] - given;
      project_room[1] := project_room[1] - given;
    ELSE
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
        CONTINUE WHEN mode_room[slots[lane]] <= 0 OR project_room[projects[lane]] <= 0;
        mode_room[slots[lane]] := mode_room[slots[lane]] - 1;
        project_room[projects[lane]] := project_room[projects[lane]] - 1;
        shares[lane] := shares[lane] + 1;
        again := again || lane;
        again_turns := again_turns || (turn_now + 1);
        given := given + 1;
      END LOOP;
    END IF;`

/**
 * Locks and claims the first jobs of each lane, as `lockHeads` finds them, unless one of them has lost a worker. The new state
 * is the one that `applyEvent` gives for a claim of a job that is not held. A repeated call returns what it claimed before. A job
 * is updated where it was locked: until the commit, nobody else can move it from there. Nested loops, of which all plans here
 * consist, keep the jobs in the order in which they were locked.
 */
const claimHeads = `
    WITH head AS MATERIALIZED (
      SELECT head.* FROM unnest(lanes_found, floors, shares) AS item(lane_id, floor, share)
      CROSS JOIN LATERAL (
        SELECT ready.* FROM ${ranksOf("item.lane_id", "item.floor")} AS step
        CROSS JOIN LATERAL (
          SELECT queue.ctid AS tid, queue.token, queue.held OR lost_workers > 0 AS is_lost, queue_limit_ms, waited_ms + greatest(0, claim_time - phase_started_at) AS waited,
            claim_time + run_limit_ms - ran_ms AS run_end, least(claim_time + lease_ms, claim_time + run_limit_ms - ran_ms) AS lease_end
          FROM "kiln".queue
          WHERE queue.lane_id = item.lane_id AND queue.priority = step.rank AND claimable_at >= item.floor
            AND claimable_at <= claim_time AND deadline_at > claim_time
          ORDER BY claimable_at, queue.id LIMIT item.share
          FOR UPDATE SKIP LOCKED) AS ready
        LIMIT item.share) AS head
      WHERE item.share > 0 AND NOT is_claimed
    ), lost AS MATERIALIZED (
      SELECT coalesce(bool_or(head.is_lost), false) AS found FROM head
    ), moved AS (
      UPDATE "kiln".queue SET status = 'processing', token = queue.token + 1, held = true, claimable_at = lease_end,
        deadline_at = CASE WHEN lease_end = run_end THEN run_end ELSE lease_end + greatest(0, head.queue_limit_ms - waited) END,
        phase_started_at = claim_time, waited_ms = waited, attempts = queue.attempts + 1, claim_id = claim
      FROM head
      WHERE queue.ctid = head.tid AND queue.token = head.token AND NOT (SELECT lost.found FROM lost)
      RETURNING ${queueColumns}
    ), mine AS (
      SELECT * FROM moved
      UNION ALL
      (SELECT ${queueColumns} FROM "kiln".queue WHERE is_claimed AND queue.held AND queue.claim_id = claim ORDER BY queue.job_seq)
    )
    SELECT lost.found, claims.* INTO is_lost, claimed, served, with_rest FROM lost CROSS JOIN (
      SELECT ${columnArrays}, array_agg(mine.lane_id), array_agg(mine.job_seq) FILTER (WHERE ${hasRest})
      FROM mine LEFT JOIN "kiln".jobs ON jobs.seq = mine.job_seq) AS claims;`

/**
 * When another job may become claimable: the first entry of each lane that was found and still has room, and the bounds of the
 * other lanes. A lane that was searched to its end counts from later entries; others are being claimed right now. Where a job is
 * claimable already, the rest is not looked at.
 */
const findNext = `
  FOR first_at IN
    SELECT first.claimable_at FROM unnest(lanes_found, floors, slots, projects, is_empty)
      AS item(lane_id, floor, slot, project, empty)
    CROSS JOIN LATERAL ${ranksOf("item.lane_id", "item.floor")} AS step
    CROSS JOIN LATERAL (
      SELECT claimable_at FROM "kiln".queue
      WHERE queue.lane_id = item.lane_id AND queue.priority = step.rank
        AND claimable_at >= CASE WHEN item.empty THEN greatest(item.floor, claim_time + 1) ELSE item.floor END
        AND deadline_at > greatest(claimable_at, claim_time)
      ORDER BY claimable_at LIMIT 1) AS first
    WHERE mode_room[item.slot] > 0 AND project_room[item.project] > 0
  LOOP
    soonest := least(soonest, first_at);
    EXIT WHEN soonest <= claim_time;
  END LOOP;`

const summarize = `
  SELECT json_build_object('now', claim_time, 'clock', clock, 'isLost', is_lost, 'isPage', lane_count >= page,
    'lanesOfJobs', (
      SELECT json_agg(json_build_object('id', id, 'projectId', project_id, 'kind', kind, 'kindVersion', kind_version, 'mode', mode))
      FROM "kiln".lanes WHERE id = ANY (lanes_of_jobs)),
    'lanes', (
      SELECT json_agg(json_build_object('id', lane_id, 'start', start, 'count', count, 'isEmpty', empty) ORDER BY ord)
      FROM unnest(lanes_found, starts, counts, is_empty, is_visited) WITH ORDINALITY AS found(lane_id, start, count, empty, visited, ord)
      WHERE visited),
    'nextAt', CASE WHEN soonest <= claim_time THEN soonest ELSE least(soonest, (
      SELECT min(first.next_at) FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text)
      CROSS JOIN LATERAL (
        SELECT next_at FROM "kiln".lanes
        WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode AND next_at >= 0
          AND lanes.id <> ALL (lanes_found) AND (lanes.mode || ' ' || project_id) <> ALL (full_projects)
        ORDER BY next_at LIMIT 1) AS first
      WHERE mode_room[CASE runnable.mode WHEN 'live' THEN 2 ELSE 1 END] > 0)) END) INTO summary;`

/**
 * Claims jobs in one call, where only the worker's own slots limit it. It decides like `claimJobs.ts`, which is used for
 * everything else: limits of the installation, and jobs that a lost worker still holds.
 */
export const claimFunction = `
-- claim:         identifies this call
-- is_repeated:   its answer may have been lost
-- kinds:         lanes that the worker can run
-- most:          maximum number of jobs
-- room:          the worker's free slots, sandbox and live
-- project_slots: how many slots of each mode one project may hold; 0 is no limit
-- held_jobs:     the jobs in the worker's slots, by project and mode
-- full_projects: projects at that limit, each as 'mode id'
-- noted_turns, noted_clock: positions of lanes that the process has not saved yet
-- page:          maximum number of lanes of a kind that are read
-- may_be_alone:  whether to look first for a job that is claimable alone
-- Returns a row for the jobs of each lane or of several lanes, with an array for each column, and a last row with the summary.
CREATE FUNCTION "kiln".claim_jobs(claim bigint, is_repeated boolean, kinds json, most bigint, lease_ms bigint, room bigint[],
  project_slots bigint, held_jobs json, full_projects text[], noted_turns json, noted_clock bigint, page bigint, may_be_alone boolean)
RETURNS TABLE (claimed json, rests json, summary json) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  claim_time bigint := "kiln".store_time();
  clock bigint;
  lanes_found bigint[];
  floors bigint[];
  turns bigint[];
  starts bigint[];
  owners text[];
  slots int[];
  projects bigint[];
  project_rooms bigint[];
  mode_room bigint[] := room;
  project_room bigint[] := '{}';
  shares int[];
  counts int[];
  is_empty boolean[];
  is_visited boolean[];
  is_claimed boolean := false;
  is_lost boolean := false;
  is_done boolean;
  asked bigint := most;
  before bigint;
  lane_count int;
  served bigint[];
  with_rest bigint[];
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
BEGIN
${claimAlone}
${findLanes}
  lane_count := coalesce(cardinality(lanes_found), 0);
  lanes_found := coalesce(lanes_found, '{}');
  IF is_repeated OR lane_count > 0 THEN
    -- A call that is repeated waits here for the one before, whose end the server may not have noticed.
    is_done := pg_advisory_xact_lock(claim) IS NULL;
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
    before := asked - most;
${claimHeads}
    IF served IS NOT NULL THEN
      rests := NULL;
      IF with_rest IS NOT NULL THEN
${readRests}
      END IF;
      RETURN NEXT;
      taken := cardinality(served);
      most := most - taken;
      IF lane_count = 1 AND NOT is_claimed THEN
        lanes_of_jobs := lanes_found;
        counts[1] := taken;
        shares[1] := shares[1] - taken;
      ELSE
        FOR lane, lane_id, taken IN
          SELECT array_position(lanes_found, job.lane_id), job.lane_id, count(*) FROM unnest(served) AS job(lane_id) GROUP BY job.lane_id
        LOOP
          lanes_of_jobs := lanes_of_jobs || lane_id;
          CONTINUE WHEN lane IS NULL;
          counts[lane] := counts[lane] + taken;
          shares[lane] := shares[lane] - taken;
          turns[lane] := turns[lane] + taken;
        END LOOP;
      END IF;
    END IF;
    IF is_lost AND before > 0 THEN
      RAISE EXCEPTION 'a lost worker holds a job, and others were claimed before it' USING ERRCODE = '${lostWorkerState}';
    END IF;
    EXIT WHEN is_lost;
    is_done := true;
    FOR lane IN 1..lane_count LOOP
      is_visited[lane] := is_visited[lane] OR shares[lane] > 0 OR counts[lane] > 0;
      -- Fewer jobs than its share: what is left goes to the others.
      IF shares[lane] > 0 THEN
        is_empty[lane] := true;
        is_done := is_done AND lane_count = 1;
        mode_room[slots[lane]] := mode_room[slots[lane]] + shares[lane];
        project_room[projects[lane]] := project_room[projects[lane]] + shares[lane];
      END IF;
    END LOOP;
    EXIT WHEN is_done OR is_claimed;
  END LOOP;
  FOR lane IN 1..lane_count LOOP
    IF project_room[projects[lane]] <= 0 THEN
      full_projects := full_projects || owners[lane];
    END IF;
  END LOOP;
${findNext}
${summarize}
  claimed := NULL;
  rests := NULL;
  RETURN NEXT;
END $$;
`
