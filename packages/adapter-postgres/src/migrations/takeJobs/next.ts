import { ranksOf } from "../initial/ranks.ts"

/**
 * When another job may become claimable: the first entry of each lane that was found and still has room, and the bounds of the
 * other lanes. A lane that was searched to its end counts from later entries; others are being claimed right now. Where a job is
 * claimable already, the rest is not looked at.
 */
export const findNext = `
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

export const summarize = `
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
