import { columnArrays, hasRest, queueColumns, readRests } from "../initial/claimedColumns.ts"
import { ranksOf } from "../initial/ranks.ts"
import { countAgain } from "./limits.ts"

/**
 * Locks the first jobs of each lane and claims them. The new state is the one that `applyEvent` gives for a claim. Jobs that have
 * lost too many workers are left for the caller, which fails them. A repeated call returns what it claimed before. A job is updated where it
 * was locked: until the commit, nobody else can move it from there. Nested loops, of which all plans here consist, keep the jobs
 * in the order in which they were locked.
 */
export const claimHeads = `
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

/** Counts what each lane gave, and takes back the room of what it did not give. What is left goes to the others. `some`: at least the lanes with a share. */
export const countTaken = (some: string): string => `
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
    FOR lane IN ${some} LOOP
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
