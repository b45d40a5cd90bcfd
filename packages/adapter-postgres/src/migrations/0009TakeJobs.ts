import type { Migration } from "@kiln/core/ports"
import { ranksOf } from "./initial/ranks.ts"
import { claimHeads, countTaken } from "./takeJobs/claimHeads.ts"
import { findLanes, shareTurns } from "./takeJobs/lanes.ts"
import { applyLimits, countHeld } from "./takeJobs/limits.ts"
import { takeAlone } from "./takeJobs/takeAlone.ts"

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

export const findFull = `  FOR lane IN 1..lane_count LOOP
    IF project_room[projects[lane]] <= 0 THEN
      full_projects := full_projects || owners[lane];
      is_near := true;
    END IF;
    is_near := is_near OR kind_room[places[lane]] <= 0;
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

const aboutParameters = `-- claim:         identifies this call
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
`

const variables = `  claim_time bigint := "kiln".store_time();
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
  is_due boolean;
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
`

/** What the versions of the function differ in. */
export interface Version {
  readonly name: string
  readonly moreVariables: string
  readonly findLanes: string
  readonly shareTurns: string
  /** Lanes of which some got a share, as `countTaken` goes through them. */
  readonly some: string
  readonly findFull: string
}

export const takeFunction = (version: Version): string => `
${aboutParameters}-- Returns a row for the jobs of each round, with an array for each column, and a last row with the summary, which is NULL if it was not its turn.
CREATE FUNCTION "kiln".${version.name}(claim bigint, is_repeated boolean, kinds json, most bigint, lease_ms bigint, max_lost bigint, reads boolean,
  may_be_alone boolean, mode_room bigint[], kind_room bigint[], project_slots bigint, held_jobs jsonb, kind_limits jsonb,
  project_limit bigint, own_limits jsonb, limits_cross boolean, full_projects text[], noted_turns jsonb, noted_clock bigint,
  skipped bigint[], page bigint, patient text)
RETURNS TABLE (claimed json, rests json, summary json) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
${variables}${version.moreVariables}BEGIN
${applyLimits}
${takeAlone}
${version.findLanes}
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
${version.shareTurns}
    EXIT WHEN given = 0 AND NOT is_claimed;
${claimHeads}
${countTaken(version.some)}
  END LOOP;
${version.findFull}
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
 * One statement for every claim. `claim_jobs` stays for processes of the previous version, which use it where no limits, rates or
 * lost workers matter, and several statements elsewhere. Both take the same lock for limits.
 */
export const takeJobs: Migration = {
  name: "0009TakeJobs",
  sql: takeFunction({
    name: "take_jobs",
    moreVariables: "",
    findLanes,
    shareTurns,
    some: "1..lane_count",
    findFull,
  }),
}
