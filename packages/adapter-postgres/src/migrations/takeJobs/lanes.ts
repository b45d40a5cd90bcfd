import { roomOfProject } from "./limits.ts"

const lanesWhere = (which: string, order: string): string => `
      (SELECT lanes.id, project_id, lanes.mode, virtual_time, next_at FROM "kiln".lanes
       WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode
         AND next_at <= claim_time AND (lanes.mode || ' ' || project_id) <> ALL (full_projects) AND lanes.id <> ALL (skipped)
         AND ${which}
       ORDER BY ${order} LIMIT page)`

const behindClock = "virtual_time <= (SELECT clock FROM fair)"
const aheadOfClock = lanesWhere("virtual_time > (SELECT clock FROM fair)", "virtual_time, lanes.id")

const lanesIn = (behind: string): string => `
  WITH fair AS MATERIALIZED (
    SELECT greatest(virtual_time, noted_clock) AS clock FROM "kiln".fairness WHERE fairness.id = 1
  ), due AS (
    SELECT lane.id, lane.project_id, lane.mode || ' ' || lane.project_id AS owner, lane.mode, lane.next_at, runnable.place,
      greatest(lane.virtual_time, (noted_turns ->> lane.id::text)::bigint, (SELECT clock FROM fair)) AS turn
    FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text, place int)
    CROSS JOIN LATERAL (${behind}
      UNION ALL${aheadOfClock}
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
 * Finds the lanes that may have claimable jobs and are not full, in the order in which they are served. Lanes behind the clock start at
 * the clock: a lane without claimable jobs does not accumulate credit. They are ordered by their creation. Lanes ahead of the
 * clock start at their own virtual time.
 */
export const findLanes = lanesIn(lanesWhere(behindClock, "lanes.id"))

/**
 * As before, but of many lanes behind the clock, those come first that were created after the one that the process served last: it
 * has not served them at this clock yet. So it sees past the lanes whose turns it has not saved, and saves them together.
 */
export const findLanesAfter = lanesIn(`
      (SELECT * FROM (${lanesWhere(`${behindClock} AND lanes.id > after_lane`, "lanes.id")}
        UNION ALL${lanesWhere(`${behindClock} AND lanes.id <= after_lane`, "lanes.id")}
      ) AS behind LIMIT page)`)

/**
 * Distributes turns among the lanes that are left by start-time fair queueing, as if each had enough jobs: a served lane returns
 * one turn later. No lane exceeds its room. Where limits of kinds and of projects cross, it stops at a lane that only the turns of others
 * hold back: if those prove to be empty, this lane comes before the ones behind it.
 */
export const shareTurns = `
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
