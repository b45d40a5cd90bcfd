import { rankOf } from "@kiln/core/rules"
import { claimedColumns, hasRest, queueColumns, readRests } from "../initial/claimedColumns.ts"
import { roomOfProject } from "./limits.ts"

const normal = rankOf("normal")

/** The columns of a single job. */
const columnsOfOne = `json_build_object(${Object.entries(claimedColumns)
  .map(([name, source]) => `'${name}', json_build_array(${source})`)
  .join(", ")})`

/**
 * The usual claim of a worker that rests: one job is claimable, alone. The statements that decide between lanes and ranks cost the
 * server several times as much, whatever they find. It leaves everything to them where a second job is claimable, a job has
 * lost a worker, the lane has jobs of other ranks, or there is no room for two.
 */
export const takeAlone = `
  IF may_be_alone AND most > 0 AND NOT is_repeated THEN
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
          ${roomOfProject("(lanes.mode || ' ' || project_id)", "0")} > 1,
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
        summary := json_build_object('now', claim_time, 'clock', clock, 'isPage', false, 'full', full_now,
          'lanesOfJobs', json_build_array(summary), 'lanes', json_build_array(
            json_build_object('id', only_lane, 'start', turn_now, 'count', 1, 'isEmpty', most > 1)), 'nextAt', only_next);
        RETURN NEXT;
        RETURN;
      END IF;
      summary := NULL;
    END IF;
  END IF;`
