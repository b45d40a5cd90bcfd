/** In a lane the ranks lie one behind the other, so each is asked for its first. */
export const laneFunctions = `
-- Like settle_lanes, and returns the lanes it could not settle because something is being added to them: in a transaction of
-- a caller's that may go on for minutes.
CREATE FUNCTION "kiln".try_settle_lanes(lane_ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
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

-- For processes of the version before.
CREATE OR REPLACE FUNCTION "kiln".settle_lanes(lane_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM "kiln".try_settle_lanes(lane_ids);
END $$;
`
