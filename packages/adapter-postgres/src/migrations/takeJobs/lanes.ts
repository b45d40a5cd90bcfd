import { roomOfProject } from "./limits.ts"

const lanesWhere = (which: string, order: string): string => `
      (SELECT lanes.id, project_id, lanes.mode, virtual_time, next_at FROM "kiln".lanes
       WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode
         AND next_at <= claim_time AND (lanes.mode || ' ' || project_id) <> ALL (full_projects) AND lanes.id <> ALL (skipped)
         AND ${which}
       ORDER BY ${order} LIMIT page)`

const behindClock = "virtual_time <= (SELECT clock FROM fair)"
const aheadOfClock = lanesWhere("virtual_time > (SELECT clock FROM fair)", "virtual_time, lanes.id")

/** What the versions of the search differ in. */
interface Search {
  readonly behind: string
  readonly kindFields: string
  readonly since: string
  readonly order: string
  readonly sinces: string
  readonly intoSinces: string
}

const lanesIn = ({ behind, intoSinces, kindFields, order, since, sinces }: Search): string => `
  WITH fair AS MATERIALIZED (
    SELECT greatest(virtual_time, noted_clock) AS clock FROM "kiln".fairness WHERE fairness.id = 1
  ), due AS (
    SELECT lane.id, lane.project_id, lane.mode || ' ' || lane.project_id AS owner, lane.mode, lane.next_at, runnable.place,
      greatest(lane.virtual_time, (noted_turns ->> lane.id::text)::bigint, (SELECT clock FROM fair)) AS turn${since}
    FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text, place int${kindFields})
    CROSS JOIN LATERAL (${behind}
      UNION ALL${aheadOfClock}
    ) AS lane
    WHERE kind_room[runnable.place] > 0
  ), ordered AS (
    SELECT due.id, next_at, turn, owner, CASE due.mode WHEN 'live' THEN 2 ELSE 1 END AS slot, place,
      dense_rank() OVER (ORDER BY owner) AS project,
      ${roomOfProject("owner", "0")} AS project_room${since === "" ? "" : ", since"}
    FROM due ORDER BY ${order}
  )
  SELECT (SELECT clock FROM fair), array_agg(ordered.id), array_agg(next_at), array_agg(turn), array_agg(owner),
    array_agg(slot), array_agg(place), array_agg(project), array_agg(ordered.project_room)${sinces}
  INTO clock, lanes_found, floors, turns, owners, slots, places, projects, project_rooms${intoSinces} FROM ordered;`

/**
 * Finds the lanes that may have claimable jobs and are not full, in the order in which they are served. Lanes behind the clock start at
 * the clock: a lane without claimable jobs does not accumulate credit. They are ordered by their creation. Lanes ahead of the
 * clock start at their own virtual time.
 */
export const findLanes = lanesIn({
  behind: lanesWhere(behindClock, "lanes.id"),
  kindFields: "",
  since: "",
  order: "turn, due.id",
  sinces: "",
  intoSinces: "",
})

/**
 * As before, but of many lanes behind the clock, those are read first that were created after the one of their kind that the process
 * served last: it has not served them at this clock yet. So it sees past the lanes whose turns it has not saved, and saves them together.
 * Of those that were read, the one comes first that was served longest ago: where other jobs move the clock while lanes wait for room,
 * these take turns.
 */
export const findLanesAfter = lanesIn({
  behind: `
      (SELECT * FROM (${lanesWhere(`${behindClock} AND lanes.id > after_lane`, "lanes.id")}
        UNION ALL${lanesWhere(`${behindClock} AND lanes.id <= after_lane`, "lanes.id")}
      ) AS behind LIMIT page)`,
  kindFields: ", after_lane bigint",
  since: `,
      greatest(lane.virtual_time, (noted_turns ->> lane.id::text)::bigint) AS since`,
  order: "turn, since, due.id",
  sinces: ", array_agg(since)",
  intoSinces: ", sinces",
})

/** What the versions of the distribution differ in. */
interface Sharing {
  readonly begin: string
  readonly fresh: string
  readonly sortAgain: string
}

/**
 * Distributes turns among the lanes that are left by start-time fair queueing, as if each had enough jobs: a served lane returns
 * one turn later. No lane exceeds its room. Where limits of kinds and of projects cross, it stops at a lane that only the turns of others
 * hold back: if those prove to be empty, this lane comes before the ones behind it.
 */
const shareBy = ({ begin, fresh, sortAgain }: Sharing): string => `
    shares := array_fill(0, ARRAY[lane_count]);
    given := 0;
    is_done := true;${begin}
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
        ${fresh});
      again := '{}';
      again_turns := '{}';
      next_fresh := 1;
      next_again := 1;
      WHILE given < most LOOP${sortAgain}
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

export const shareTurns = shareBy({
  begin: "",
  fresh: `SELECT ord FROM unnest(turns, lanes_found, is_empty) WITH ORDINALITY AS item(turn, lane_id, empty, ord)
        WHERE NOT empty ORDER BY turn, lane_id`,
  sortAgain: "",
})

/** As before, but lanes at the clock leave by when each was served last. All are back before one of them leaves again. */
export const shareTurnsBySince = shareBy({
  begin: `
    is_sorted := false;`,
  fresh: `SELECT ord FROM unnest(turns, lanes_found, is_empty, sinces) WITH ORDINALITY AS item(turn, lane_id, empty, since, ord)
        WHERE NOT empty ORDER BY turn, CASE WHEN turn = clock THEN since END, lane_id`,
  sortAgain: `
        IF NOT is_sorted AND (next_fresh > cardinality(fresh) OR turns[fresh[next_fresh]] > clock) THEN
          is_sorted := true;
          IF cardinality(again) > 1 THEN
            again := ARRAY(SELECT ord FROM unnest(again) AS item(ord) ORDER BY lanes_found[ord]);
          END IF;
        END IF;`,
})
