/**
 * Bookkeeping of lanes runs on the server in one call, so that no lane stays locked while a client thinks, hangs or
 * dies.
 */
export const laneFunctions = `
-- Says where lanes stand after a claim served them: a lane starts at its own virtual time, or at the clock's if that is
-- later, and stands one further for each job.
CREATE FUNCTION "kiln".serve_lanes(lane_ids bigint[], starts bigint[], counts bigint[], clock bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  -- Losing this in a crash loses a turn, not a job.
  PERFORM set_config('synchronous_commit', 'off', true);
  -- In the order of the ids, as everybody locks lanes, so that no two wait for each other.
  PERFORM FROM "kiln".lanes WHERE id = ANY (lane_ids) ORDER BY id FOR NO KEY UPDATE;
  UPDATE "kiln".lanes SET virtual_time = greatest(virtual_time, served.start) + served.count
  FROM unnest(lane_ids, starts, counts) AS served(lane_id, start, count)
  WHERE id = served.lane_id AND served.count > 0;
  -- Whoever holds the clock is setting it to about the same.
  UPDATE "kiln".fairness SET virtual_time = clock
  WHERE id = (SELECT id FROM "kiln".fairness WHERE id = 1 AND virtual_time < clock FOR NO KEY UPDATE SKIP LOCKED);
END $$;

-- Raises next_at of lanes to the time when each really has something claimable. Only while nobody is adding to the lane:
-- adding holds a KEY SHARE lock on it (the foreign key's), which FOR UPDATE meets. Returns the lanes that are being added to,
-- perhaps for minutes by a caller's transaction: they are left for the next time. What is committed is seen by the second
-- statement, which looks after the lock was won. In a lane the priorities lie one behind the other, so each is asked for its first.
CREATE FUNCTION "kiln".settle_lanes(lane_ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
  lane bigint;
  floor bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  FOREACH lane IN ARRAY lane_ids LOOP
    SELECT next_at INTO floor FROM "kiln".lanes WHERE id = lane AND next_at IS NOT NULL FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN QUERY SELECT id FROM "kiln".lanes WHERE id = lane AND next_at IS NOT NULL;
      CONTINUE;
    END IF;
    UPDATE "kiln".lanes SET next_at = (
      SELECT min(head.claimable_at) FROM (VALUES (2::smallint), (1::smallint), (0::smallint), (-1::smallint)) AS step(rank)
      CROSS JOIN LATERAL (
        SELECT claimable_at FROM "kiln".queue
        -- Everything below the bound is gone: not looking there spares walking over what the vacuum has not removed yet.
        WHERE lane_id = lane AND priority = step.rank AND claimable_at >= floor
          AND deadline_at > greatest(claimable_at, "kiln".store_time())
        ORDER BY claimable_at LIMIT 1) AS head)
    WHERE id = lane;
  END LOOP;
END $$;
`
